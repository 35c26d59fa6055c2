"""XGBoost and LightGBM on the workers of a trainer: one model of all rows, reports, checkpoints, restarts."""

import contextlib
import importlib
import re
from pathlib import Path

import forked_ranks
import numpy as np
import pytest

import headrace.data as hd
from headrace import train
from headrace.train import FailureConfig, RunConfig, ScalingConfig

pytest.importorskip("torch")
pytest.importorskip("pandas")
ROWS = 400
ROUNDS = 6


@pytest.fixture(scope="module", params=["xgboost", "lightgbm"])
def library(request, rank_server):
    """Its name, with ranks that have imported it."""
    pytest.importorskip(request.param)
    modules = (f"headrace.train.{request.param}", "pandas", "sklearn")
    with contextlib.closing(rank_server.more(*modules)) as server, forked_ranks.ranks_of(server):
        yield request.param


def rows():
    x = np.random.default_rng(0).random((ROWS, 3))
    y = 3 * x[:, 0] + x[:, 1] ** 2
    return hd.from_items([{"a": a, "b": b, "c": c, "y": t} for (a, b, c), t in zip(x, y, strict=True)])


def xgboost_loop(config):
    import xgboost

    from headrace.train.xgboost import RayTrainReportCallback

    frames = {n: train.get_dataset_shard(n).materialize().to_pandas() for n in ("train", "validation")}
    data = {n: xgboost.DMatrix(f.drop("y", axis=1), label=f["y"]) for n, f in frames.items()}
    before = train.get_checkpoint() and RayTrainReportCallback.get_model(train.get_checkpoint())
    done = before.num_boosted_rounds() if before else 0
    total = xgboost.collective.allreduce(np.array([len(frames["train"])]), xgboost.collective.Op.SUM)
    assert (total[0], xgboost.collective.get_rank()) == (ROWS, train.get_context().get_world_rank())
    callbacks = [RayTrainReportCallback(metrics={"error": "validation-rmse"}, frequency=2)]
    if not before:
        callbacks.append(_ending(xgboost.callback.TrainingCallback, config)())
    model = xgboost.train(
        {"objective": "reg:squarederror", "max_depth": 3, "eta": 0.5},
        data["train"],
        ROUNDS - done,
        evals=[(data["validation"], "validation")],
        xgb_model=before,
        callbacks=callbacks,
        verbose_eval=False,
    )
    return done, len(frames["train"]), model.save_raw("json")


def end(config, round_number):
    """The end of rank 1, in the middle of its training."""
    if train.get_context().get_world_rank() == 1:
        if round_number == config["fail_at"]:
            raise RuntimeError("the machine is lost")
        if round_number == config["leave_at"]:
            raise SystemExit


def _ending(base, config):
    class Ending(base):
        def after_iteration(self, model, epoch, evals_log):
            end(config, epoch)

    return Ending


def lightgbm_loop(config):
    import lightgbm

    from headrace.train.lightgbm import RayTrainReportCallback, get_network_params

    frames = {n: train.get_dataset_shard(n).materialize().to_pandas() for n in ("train", "validation")}
    data = {n: lightgbm.Dataset(f.drop("y", axis=1), label=f["y"]) for n, f in frames.items()}
    before = train.get_checkpoint() and RayTrainReportCallback.get_model(train.get_checkpoint())
    done = before.current_iteration() if before else 0

    def ending(env):
        if not before:
            end(config, env.iteration)

    network = get_network_params()
    assert network["num_machines"] == 2 and len(set(network["machines"].split(","))) == 2
    params = {"objective": "regression", "metric": "rmse", "learning_rate": 0.5, "num_leaves": 8}
    params |= {"tree_learner": "data_parallel", "pre_partition": True, "verbosity": -1, "seed": 0}
    model = lightgbm.train(
        {**params, **network},
        data["train"],
        ROUNDS - done,
        valid_sets=[data["validation"]],
        valid_names=["validation"],
        init_model=before,
        callbacks=[RayTrainReportCallback(metrics={"error": "validation-rmse"}, frequency=2), ending],
    )
    return done, len(frames["train"]), model.model_to_string()


def fit(library, tmp_path, name, fail_at=None, leave_at=None):
    module = importlib.import_module(f"headrace.train.{library}")
    trainer = {"xgboost": "XGBoostTrainer", "lightgbm": "LightGBMTrainer"}[library]
    result = getattr(module, trainer)(
        {"xgboost": xgboost_loop, "lightgbm": lightgbm_loop}[library],
        train_loop_config={"fail_at": fail_at, "leave_at": leave_at},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=tmp_path,
            name=name,
            failure_config=FailureConfig(max_failures=int(fail_at is not None)),
        ),
        datasets={"train": rows(), "validation": rows()},
    ).fit()
    return result, module


def predicted(library, model):
    frame = rows().to_pandas()
    x, y = frame.drop("y", axis=1), frame["y"]
    if library == "lightgbm":
        return model.predict(x), y
    import xgboost

    return model.predict(xgboost.DMatrix(x)), y


def test_one_model_of_all_rows(library, tmp_path):
    result, module = fit(library, tmp_path, "run")
    done, n_rows, _ = result.return_value
    assert (done, n_rows) == (0, ROWS // 2)
    errors = [m["error"] for m in result.history]
    assert len(errors) == ROUNDS and errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 5
    assert len(result.best_checkpoints) == ROUNDS // 2  # the last round's is not there twice
    assert [p.name for p in Path(result.checkpoint.path).glob("model*")] == [
        module.RayTrainReportCallback.CHECKPOINT_NAME
    ]
    got, expected = predicted(library, module.RayTrainReportCallback.get_model(result.checkpoint))
    assert float(((got - expected) ** 2).mean() ** 0.5) == pytest.approx(errors[-1], rel=0.2)


def test_a_restart_goes_on_with_the_rounds(library, tmp_path):
    whole, module = fit(library, tmp_path, "whole")
    again, _ = fit(library, tmp_path, "again", fail_at=2)
    assert again.return_value[0] == 2 and len(again.history) == ROUNDS
    models = [module.RayTrainReportCallback.get_model(r.checkpoint) for r in (whole, again)]
    assert np.allclose(*(predicted(library, model)[0] for model in models), atol=1e-5)


def test_a_worker_that_returns_early_is_named(library, tmp_path, monkeypatch):
    """Rank 0 is in a collective, which fails (the driver says why) or never ends (the driver ends it)."""
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "stall_warning_s", 1.0)
    monkeypatch.setattr(context, "stall_timeout_s", 5.0)
    with pytest.raises(train.TrainingFailedError) as failed:
        fit(library, tmp_path, "run", leave_at=2)
    assert re.match(
        r"rank 0 failed in a collective, after the train loop of rank 1 had returned|rank 0 .* waits in .* "
        r"at .*; the train loop of rank 1 has returned: all must call it equally often",
        str(failed.value),
    )


def test_local_mode_and_what_is_wrong(library, tmp_path):
    module = importlib.import_module(f"headrace.train.{library}")
    trainer = getattr(module, {"xgboost": "XGBoostTrainer", "lightgbm": "LightGBMTrainer"}[library])

    def loop():
        train.report({"rows": train.get_dataset_shard().materialize().count()})
        if library == "lightgbm":
            assert module.get_network_params() == {}
        callback = module.RayTrainReportCallback(metrics="validation-auc")
        callback._chosen({"validation-rmse": 1})

    one = trainer(
        loop,
        datasets={"train": rows()},
        scaling_config=ScalingConfig(num_workers=0),
        run_config=RunConfig(storage_path=tmp_path, name="local"),
    )
    with pytest.raises(KeyError, match="no metric 'validation-auc'; the metrics are 'validation-rmse'"):
        one.fit()
    with pytest.raises(DeprecationWarning, match="num_boost_round=.*is not supported"):
        trainer(loop, num_boost_round=3)
    with pytest.raises(TypeError, match="_config: expected an? "):
        trainer(loop, **{f"{library}_config": 3})


def test_lightgbm_outside_of_a_trainer():
    pytest.importorskip("lightgbm")
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    from headrace.train.lightgbm import get_network_params, normalize_pandas_for_lightgbm

    with pytest.warns(UserWarning, match="only in the train loop of a LightGBMTrainer"):
        assert get_network_params() == {}
    table = pyarrow.table({"i": pyarrow.array([1], "int16"), "u": pyarrow.array([1], "uint64"), "t": ["x"]})
    table = table.append_column("f", pyarrow.array([1.0], "float32"))
    frame = table.append_column("b", [[True]]).to_pandas(types_mapper=pandas.ArrowDtype)
    found = normalize_pandas_for_lightgbm(frame).dtypes.astype(str).to_dict()
    assert found == {"i": "Int16", "u": "UInt64", "t": "string[pyarrow]", "f": "Float32", "b": "boolean"}
