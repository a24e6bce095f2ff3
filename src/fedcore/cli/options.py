"""Options of a job on the command line, made from the fields of ``Experiment``."""

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fedcore.config import SET_BY_BENCHMARK, Experiment, option_fields, read_toml, resolve
from fedcore.sources.benchmark import find
from fedcore.values import convert, read_option, read_pairs

# Options of plug-ins' own: tables in TOML, KEY=VALUE here.
TABLES = {
    "data": "Further option of the dataset, e.g. --data clients=100; may be repeated.",
    "method": "Own option of a strategy, sampler, selector or model: --method rho=0.5; repeatable.",
}


def with_experiment_options(*others: Callable[..., None]) -> Callable[[Any], Any]:
    """Add every option of ``Experiment``, and those of ``others``, to a command, as ``**given``."""

    def decorate(command: Any) -> Any:
        signatures = [inspect.signature(one, eval_str=True) for one in (command, *others)]
        every = [p for one in signatures for p in one.parameters.values()]
        own = [p for p in every if p.kind is not p.VAR_KEYWORD]
        # One with an option of its own for a strategy has none for several.
        without = "strategies" if "strategy" in signatures[0].parameters else ""
        added = [_parameter(name) for name in (*option_fields(), *TABLES) if name != without]
        command.__signature__ = signatures[0].replace(parameters=[*own, *added])
        command.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        command.__doc__ = flowing(command.__doc__ or "")
        return command

    return decorate


def flowing(text: str) -> str:
    """A text whose paragraphs are one line each, for the terminal to break where it must."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def options_from(given: dict[str, Any], config: Path | None) -> dict[str, Any]:
    """The options that a TOML file and the command line give together."""
    typed = {name: value for name, value in given.items() if value not in (None, [])}
    from_file = read_toml(config) if config is not None else {}
    hints = typing.get_type_hints(Experiment)
    for name, value in typed.items():
        if name in TABLES:
            earlier = convert(name, from_file.get(name, {}), hints[name])
            typed[name] = {**earlier, **read_pairs(name, value)}
        elif hints[name] in (int, float) and not (name == "learning_rate" and "," in value):
            typed[name] = read_option(name, value, hints[name])
    return {**from_file, **typed}


def experiment_from(given: dict[str, Any], config: Path | None) -> Experiment:
    """The experiment that they describe."""
    options = options_from(given, config)
    return resolve(options, lambda name, preset: find(name).hyperparameters(preset))


def _parameter(name: str) -> inspect.Parameter:
    flag = "--" + name.replace("_", "-")
    kind: Any
    if name in TABLES:
        kind = Annotated[list[str] | None, typer.Option(flag, help=TABLES[name])]
    else:
        hint = typing.get_type_hints(Experiment)[name]
        metavars: dict[Any, str] = {int: "NUMBER", float: "NUMBER", str: "NAME", bool: ""}
        metavars[float | str] = "NUMBER|NAME"
        metavar = "PATH" if name in ("data_dir", "speeds") else metavars.get(hint, "LIST")
        panel = option_fields()[name].metadata["panel"]
        option = typer.Option(flag, help=_help(name), rich_help_panel=panel, metavar=metavar)
        kind = Annotated[(bool if hint is bool else str) | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _help(name: str) -> str:
    """The help of an option, its choices and its default."""
    field = option_fields()[name]
    text: str = field.metadata["help"]
    if choices := getattr(field.metadata["check"], "choices", ()):
        text += f" One of: {', '.join(choices)}."
    default = field.default if isinstance(field.default, tuple) else (field.default,)
    texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in default)
    shown = "by benchmark" if name in SET_BY_BENCHMARK else ",".join(texts).replace("None", "none")
    return f"{text} [dim]\\[{shown}][/dim]"
