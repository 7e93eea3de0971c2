"""eli5 explains the estimator as it explains one of sklearn-crfsuite."""

import warnings
from typing import Any

import numpy as np
import pytest

from spacy_crfseq import CRF
from tests.test_estimator import generated


@pytest.fixture(scope="module")
def eli5() -> Any:
    """The package, which takes a second to import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eli5 = pytest.importorskip("eli5", reason="eli5 is not installed")
        import spacy_crfseq.eli5  # noqa: F401
    return eli5


SETTINGS: dict[str, dict[str, Any]] = {
    "all": {"top": None},
    "the first": {"top": 3},
    "of each sign": {"top": (2, 1)},
    "some labels": {"targets": ["L2", "L0"], "top": 4},
    "other names": {"target_names": {"L1": "one"}, "top": 2},
    "a pattern": {"feature_re": "^word:", "top": None},
    "a filter": {"feature_filter": lambda name: "f" in name, "top": None},
}


@pytest.mark.parametrize("case", SETTINGS)
def test_explanations_are_those_of_the_same_model_of_sklearn_crfsuite(case: str, eli5: Any) -> None:
    peer = pytest.importorskip("sklearn_crfsuite", reason="sklearn-crfsuite is not installed").CRF
    crf = CRF(c1=0.05, max_iterations=20).fit(*generated(30))
    theirs = eli5.explain_weights(peer(model_filename=crf.modelfile.name), **SETTINGS[case])
    ours = eli5.explain_weights(crf, **SETTINGS[case])
    assert [target.target for target in ours.targets] == [target.target for target in theirs.targets]
    for own, other in zip(ours.targets, theirs.targets, strict=True):
        for side in ("pos", "neg"):
            weights, expected = (
                {str(feature.feature): feature.weight for feature in getattr(target.feature_weights, side)}
                for target in (own, other)
            )  # features of the same words have the same weight, so that either may be among the first
            assert sorted(weights.values()) == pytest.approx(sorted(expected.values()), abs=1e-5)
            assert SETTINGS[case].get("top") is not None or weights.keys() == expected.keys()
            label = {"one": "L1"}.get(own.target, own.target)
            assert weights == {name: crf.state_features_[name, label] for name in weights}
            assert getattr(own.feature_weights, f"{side}_remaining") == getattr(
                other.feature_weights, f"{side}_remaining"
            )
    assert ours.transition_features.class_names == theirs.transition_features.class_names
    np.testing.assert_allclose(ours.transition_features.coef, theirs.transition_features.coef, atol=1e-5)


def test_explanations_can_be_shown(eli5: Any) -> None:
    shown = eli5.format_as_text(eli5.explain_weights(CRF(max_iterations=5).fit(*generated(20))))
    assert "Transition features" in shown
    assert "word:" in shown


def test_an_estimator_that_is_not_fitted_is_refused(eli5: Any) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        eli5.explain_weights(CRF())
