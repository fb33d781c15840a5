"""ParetoBandit's own router over the rows of its own table, in given orders.

``routing.py --with-paretobandit PYTHON`` starts this file with another Python that has numpy,
scikit-learn, joblib and tqdm; tightrope is not needed there. A job comes as JSON on standard input,
the runs go as JSON to standard output. Settings are those of the wheel's demo: its tuned
exploration, forgetting and weight of the priors, the pacer that adapts, no static price penalty.

``contexts``: the router's features of a request: "prompt", its text by the wheel's own encoder if
sentence-transformers is installed, otherwise 25 components of word frequencies, fitted to the
prompts of the other table (val.jsonl); or "benchmark", the benchmark that it is from. ``warm``: it
starts from priors and first learns on the other table, as in the demo. The priors in the wheel are
for its own encoder; for other features they are made in the same way from the other table.
"""

import json
import logging
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

COMPONENTS = 25  # as many as its own features have


def main() -> None:
    job = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(job["wheel"]) as wheel:
            wheel.extractall(folder)
        sys.path.insert(0, folder)
        logging.disable(logging.WARNING)
        from pareto_bandit.config import K3_ARM_ORDER

        data = Path(folder, "pareto_bandit", "data", "examples")
        tables = [_table(data / f"{name}.jsonl", K3_ARM_ORDER) for name in job["tables"]]
        own = job["contexts"] == "prompt" and find_spec("sentence_transformers") is not None
        kind = "own" if own else "words" if job["contexts"] == "prompt" else "benchmark"
        features = FEATURES[kind](*tables)
        priors = "none"
        if job["warm"]:
            made = Path(folder, "priors.joblib")
            priors = "warmup" if own else _priors(features[0], tables[0][2], K3_ARM_ORDER, made)
        runs = [
            [
                _run(features, tables, limit, order, number, priors)
                for number, order in enumerate(job["orders"])
            ]
            for limit in job["limits"]
        ]
    json.dump({"features": kind, "models": K3_ARM_ORDER, "runs": runs}, sys.stdout)


def _table(path: Path, models):
    """Prompts and benchmarks [n], and the outcomes [n, K, 2]: reward and dollars."""
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    outcomes = [[[row["arms"][m][c] for c in ("reward", "cost")] for m in models] for row in rows]
    benchmarks = [row["source"].partition("/")[0] for row in rows]
    return [row["prompt"] for row in rows], benchmarks, np.array(outcomes)


def _own_features(before, after):
    from pareto_bandit.feature_service import FeatureService

    service = FeatureService()
    return [service.extract_features_batch(table[0]) for table in (before, after)]


def _word_features(before, after):
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2))
    reduced = TruncatedSVD(COMPONENTS, random_state=0)
    first = reduced.fit_transform(words.fit_transform(before[0]))
    centre, spread = first.mean(axis=0), first.std(axis=0)
    parts = [first, reduced.transform(words.transform(after[0]))]
    return [np.column_stack([(x - centre) / spread, np.ones(len(x))]) for x in parts]


def _benchmark_features(before, after):
    names = sorted({*before[1], *after[1]})
    parts = [np.array([[one == name for name in names] for one in t[1]]) for t in (before, after)]
    return [np.column_stack([x.astype(float), np.ones(len(x))]) for x in parts]


def _priors(features, outcomes, models, path: Path) -> str:
    """A file of priors from all models' rewards, as ``generate_warmup_priors`` makes it."""
    import joblib

    size = features.shape[1]
    precision = np.eye(size) + features.T @ features
    sums = {model: features.T @ outcomes[:, k, 0] for k, model in enumerate(models)}
    state = {"A": {model: precision.copy() for model in models}, "b": sums, "models": list(models),
             "n": len(features), "context_dim": size, "pca_components": size - 1,
             "pca_whitened": True}  # fmt: skip
    joblib.dump(state, path)
    return str(path)


FEATURES = {"own": _own_features, "words": _word_features, "benchmark": _benchmark_features}


def _run(features, tables, limit, order, number, priors):
    """One run: the shares of the models, mean reward and mean dollars of the prompts in order."""
    from pareto_bandit import BanditRouter
    from pareto_bandit.budget_pacer import BudgetPacer, PacingMode
    from pareto_bandit.config import BEST_K3_HPARAMS, K3_ARM_ORDER
    from pareto_bandit.demo import MODEL_REGISTRY
    from pareto_bandit.feature_service import FeatureService
    from pareto_bandit.storage import EphemeralContextStore

    router = BanditRouter.create(
        model_registry=dict(MODEL_REGISTRY),
        feature_service=FeatureService.for_precomputed(features[0].shape[1]),
        context_store=EphemeralContextStore(),
        priors=priors,
        prior_n_effective=BEST_K3_HPARAMS["prior_n_effective"],
        alpha=BEST_K3_HPARAMS["alpha"],
        forgetting_factor=BEST_K3_HPARAMS["forgetting_factor"],
        cost_penalty=0.0,
        budget_pacer=BudgetPacer(target_avg_spend_usd=limit, mode=PacingMode.ADAPTIVE),
        bandit_seed=number,
    )
    if priors != "none":
        _follow(
            router,
            features[0],
            tables[0][2],
            np.random.default_rng(number).permutation(len(features[0])),
        )
    chosen, told = _follow(router, features[1], tables[1][2], order)
    shares = np.bincount(chosen, minlength=len(K3_ARM_ORDER)) / len(chosen)
    return {"reward": told[:, 0].mean(), "dollars": told[:, 1].mean(), "shares": shares.tolist()}


def _follow(router, features, outcomes, order):
    from pareto_bandit.config import K3_ARM_ORDER

    chosen, told = [], []
    for row in order:
        model, log = router.route(features[row])
        arm = K3_ARM_ORDER.index(model)
        reward, log.cost_usd = map(float, outcomes[row, arm])
        router.process_feedback(log.request_id, reward=reward)
        chosen.append(arm)
        told.append((reward, log.cost_usd))
    return chosen, np.array(told)


if __name__ == "__main__":
    main()
