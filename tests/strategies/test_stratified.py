from fedcore.coreset.proxies import NONE
from fedcore.strategies import stratified
from fedcore.types import ClientProfile, CoresetSpec, Phase


def test_as_many_as_fit_chosen_by_the_selector_of_that_name():
    plan = stratified.build().plan(ClientProfile(100, 1.0), 455.0, 10)
    assert plan.phases == (Phase(10, CoresetSpec(45, "stratified", NONE)),)
