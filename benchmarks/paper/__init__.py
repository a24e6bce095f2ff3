"""The paper's tables again."""
