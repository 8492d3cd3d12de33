"""A user's script with every public name: type checkers accept it, and it runs in an empty folder."""
# pyright: strict

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import poolscope as ps

SIZE = 30
TABLES: dict[str, object] = {
    "title": "Thirty objects",
    "universe": {"size": SIZE, "pools": {"a": 5, "b": 5, "c": 5}},
    "popularity": {"kind": "zipf", "exponent": 1.2},
    "mechanism": {"kind": "grr", "epsilon": 3.0},
    "users": {"count": 20},
    "adversary": [{"name": "weak", "popularity": "uniform"}],
    "attack": {"observations": [3, 10]},
}


class Printed(ps.Progress):
    """Says what is done."""

    def stage(self, doing: str) -> None:
        print(doing)


class Own:
    """A mechanism of one's own, as `adapt` takes it."""

    epsilon = float(np.log(31))

    def obfuscate(self, objects: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        return np.where(rng.random(len(objects)) < 0.5, objects, rng.integers(SIZE, size=len(objects)))

    def log_likelihood(self, reports: NDArray[np.int64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = np.log(0.5 * (reports[:, None] == np.arange(SIZE)) + 0.5 / SIZE)
        return scores


class Twice:
    """A device of one's own: a class attribute and a plain one where the protocol has read-only properties."""

    memoizes = False

    def __init__(self, mechanism: ps.Mechanism) -> None:
        self.mechanism = mechanism

    def send(
        self, objects: NDArray[np.int64], users: NDArray[np.uint64], event_index: NDArray[np.int64]
    ) -> ps.mechanisms.Reports:
        return self.mechanism.report(objects, users + event_index.astype(np.uint64))


class Waiting(Twice):
    """A device of one's own whose reports depend on earlier ones."""

    def log_likelihood(
        self, reports: ps.mechanisms.Reports, candidate_objects: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        return np.zeros((len(next(iter(reports.values()))), len(candidate_objects)))


class Guessing:
    """An attack of one's own."""

    name = "guessing"

    def posteriors(
        self,
        reports: ps.mechanisms.Reports,
        lengths: NDArray[np.int64],
        observations: Sequence[int],
        context: ps.attacks.AttackContext,
    ) -> NDArray[np.float64]:
        k = len(context.hypotheses)
        return np.full((len(lengths), len(observations), k), 1.0 / k)


def drawn_users(keys: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Draw a population of one's own."""
    return ps.random.integers(ps.random.child_keys(keys, 1), range(n), SIZE)


def roles(game: ps.Game) -> None:
    """Attacks, populations and devices of one's own."""
    attack: ps.Attack = Guessing()
    scoring: ps.attacks.ScoringAttack = ps.attacks.Averaging()
    more = [ps.attacks.Bayesian(), ps.attacks.Forgetting(window=3), ps.attacks.NearestProfile()]
    waiting: ps.mechanisms.SequentialDevice = Waiting(game.mechanism)
    people: ps.Population = ps.Population.from_function(drawn_users)
    given = ps.Population.from_traces([[1, 2, 3], [7, 8]], truth=["a", "b"])
    for population in (people, given):
        made = ps.Game(
            universe=game.universe,
            popularity=game.popularity,
            device=waiting,
            adversaries=[attack, scoring, *more, ps.attacks.ChangingPreference(rate=0.01)],
            observations=[3, 10],
            population=population,
        )
        drawn: ps.Simulated = ps.simulate(made, 2, seed=1)
        truth: ps.SimulatedTruth = drawn.truth
        even = np.full((2, 2, 3), 1 / 3)
        print(ps.outcomes_of("even", even, truth, [3, 10]).height, ps.play(made, 2, seed=1).height)
    history: ps.attacks.PreferenceHistory = ps.attacks.preference_history([[1.0, 2.0, 1.0]] * 3)
    keys = np.arange(3, dtype=np.uint64)
    print(ps.random.report_keys(keys, [0, 1, 2]))
    print(ps.Change(after=3, share=0.5), history.changed, ps.random.uniforms(keys), ps.random.normals(keys))


class Remembering(Twice):
    """A device of one's own that memoizes and says what its reports say together."""

    memoizes = True

    @property
    def per_device_columns(self) -> Mapping[str, int]:
        return {}

    def likelihood(self, reports: ps.mechanisms.Reports) -> ps.mechanisms.ReportLikelihood:
        return ps.mechanisms.Memoized(self.mechanism).likelihood(reports)


def commands(scenario: ps.Scenario) -> None:
    """Every command, with texts for paths."""
    summary: ps.Summary = ps.audit(scenario, "run", users=20, html=False, progress=Printed())
    first: ps.metrics.Record = summary.results[0]
    gated: ps.metrics.GateResult = ps.metrics.gate(summary, "exposed_90 > 0.02", on_uncertain="pass")
    print(gated.passed, gated.reason)
    origin: ps.Provenance = ps.provenance(summary)
    print(first.auc_pn.value, summary.users, origin.numba)
    Path("traces.csv").write_text("user,object\n" + "ann,3\n" * 20 + "bob,8\n" * 20, encoding="utf-8")
    sent: ps.Obfuscated = ps.obfuscate("traces.csv", scenario, "reports.parquet", seed=1)
    found: ps.Inferred = ps.attack("reports.parquet", scenario, out="posteriors.parquet")
    inspected: ps.Inspection = ps.inspect("reports.parquet", scenario)
    print(inspected.passed, inspected.checks[0].value)
    found = ps.attack_collections({"emojis": "emojis.parquet"}, scenario, out="posteriors.parquet")
    found = ps.attack_collections("tuples.parquet", scenario, out="posteriors.parquet")
    estimated: ps.Estimated = ps.estimate("reports.parquet", scenario, "popularity.csv")
    print(sent.reports, found.users, estimated.table.height)
    fitted: ps.metrics.Fitted = ps.fit(scenario, "traces.csv")
    users: ps.metrics.BetaRecord | None = fitted.interest
    edge: ps.metrics.EdgePopulation = fitted.edges[0]
    print(users, edge.behavior)
    verdict: ps.Verdict = ps.check(scenario, samples=1000, seed=1)
    print(verdict.declared, verdict.mechanism)
    compared: ps.Comparison = ps.compare(
        scenario, ["grr", Made], [1.0, 2.0], users=10, estimate_from=100, out="compared"
    )
    print(compared.results[0].mechanism, compared.results.to_polars().height)
    swept: ps.Sweep = ps.sweep(scenario, {"mechanism.epsilon": [1, 2]}, seeds=2, users=10, out="swept")
    ps.figures.save(ps.figures.sweep_plot(swept.results, "brier", "mechanism.epsilon"), "swept.svg")
    advice: ps.Advice = ps.advise(
        scenario, max_exposed=0.5, horizon=3, mechanisms=["grr"], users=50, tolerance=0.5, out="advice"
    )
    print(advice.recommendation.epsilon)
    several: ps.CollectionsAdvice = ps.advise(
        ps.load_scenario("apple-collections"),
        max_exposed=0.2,
        max_error={},
        horizon=3,
        threshold=0.6,
        adversary="weak",
        epsilon=(1.0, 4.0),
        users=60,
        out="several",
    )
    print(several.collections[0].epsilon)
    done: ps.Reproduction = ps.reproduce("no-hash", out="paper", users=2, html=False)
    print(done.cells[0].published)
    Path("posts.csv").write_text("who,what\nann,👍🏽 hello\nbob,👋🏿👋🏿\n", encoding="utf-8")
    made: ps.Extracted = ps.make_traces(["posts.csv"], "emojis.csv", universe="emoji-11", user="who", text="what")
    print(made.users)


class Made(ps.mechanisms.GRR):
    """A class of one's own, which `compare` makes of ``universe`` and ``epsilon``."""


def a_game() -> tuple[ps.Game, pl.DataFrame]:
    """A game of one's own parts, played."""
    universe: ps.Universe = ps.Universe.sized(SIZE, {"a": 5, "b": 5, "c": 5})
    popularity: NDArray[np.float64] = ps.popularity.zipf(universe, 1.2)
    flat: ps.priors.Density = ps.priors.Beta(a=2.0, b=2.0)
    steps: ps.priors.Density = ps.priors.StepDensity(weights=(1.0, 3.0))
    rising: ps.priors.Density = ps.priors.FunctionDensity(lambda x: 2.0 * x)
    print(rising.quantile(np.array([0.5])))
    behavior: ps.Behavior = ps.Behavior(interest=flat, polarization=steps)
    strong: ps.Adversary = ps.Adversary(name="strong", universe=universe, popularity=popularity, belief=behavior)
    game = ps.Game(
        universe=universe,
        popularity=popularity,
        device=ps.mechanisms.Fresh(ps.mechanisms.OUE(universe=SIZE, epsilon=3.0)),
        adversaries=[strong, ps.Adversary.weak(universe)],
        observations=[5, 10],
        behavior=behavior,
    )
    local: ps.Local = ps.Local(threads=1)
    outcomes: pl.DataFrame = ps.play(game, users=50, seed=1, engine=local)
    return game, outcomes


def on_dask(game: ps.Game, address: str) -> pl.DataFrame:
    """The same on a cluster."""
    with ps.Dask(scheduler=address) as engine:
        return ps.play(game, users=50, seed=1, engine=engine)


def on_arrays(game: ps.Game) -> None:
    """Posteriors and frequencies of reports in memory."""
    rng = np.random.default_rng(1)
    mechanism: ps.Mechanism = game.mechanism
    reports: ps.mechanisms.Reports = mechanism.obfuscate(np.array([0, 0, 1, 0]), rng)
    posterior: NDArray[np.float64] = ps.posterior(mechanism, reports, game.adversaries[0])
    likelihood = [[1.0, 3.0, 1.0, 1.0], [1.0, 3.0, 1.0, 1.0]]
    same_shape: NDArray[np.float64] = ps.posterior_of_likelihood(likelihood)
    same_shape = ps.joint_posterior([same_shape, same_shape], [np.eye(2), np.eye(2)])
    learned: ps.BehaviorPosterior = ps.behavior_posterior(likelihood)
    counted: ps.Frequencies = ps.frequencies(mechanism, reports)
    print(posterior.shape, same_shape.shape, learned.gamma, counted.popularity)


def popularities(universe: ps.Universe) -> None:
    """Popularities of all kinds."""
    uniform = ps.popularity.uniform(universe)
    given = ps.popularity.given(universe, list(range(1, SIZE + 1)))
    drawn = ps.popularity.random(universe, np.random.default_rng(1))
    rows = "".join(f"{z},{z + 1}\n" for z in range(SIZE))
    Path("given.csv").write_text(f"object,popularity\n{rows}", encoding="utf-8")
    read = ps.popularity.read_popularity("given.csv", universe)
    far: float = ps.popularity.jensen_shannon(uniform, given)
    print(far, ps.popularity.entropy(universe, drawn), ps.popularity.within_pools(universe, read).sum())
    print(ps.popularity.project_to_simplex([0.5, 0.75, -0.5]))


def mechanisms(universe: ps.Universe) -> list[ps.mechanisms.Mechanism]:
    """One mechanism of each kind."""
    two = {"epsilon_perm": 2.0, "epsilon_1": 1.0}
    grr = ps.mechanisms.GRR(universe=SIZE, epsilon=1.0)
    pure: ps.mechanisms.Pure = grr
    countable: ps.mechanisms.FrequencyOracle = grr
    rates: ps.mechanisms.SupportProbabilities = countable.rates
    column: ps.mechanisms.ReportColumn = grr.report_columns["value"]
    channel: ps.mechanisms.Likelihood = ps.mechanisms.Channel(universe=2, matrix=np.array([[0.75, 0.25], [0.25, 0.75]]))
    adapted: ps.mechanisms.Adapted = ps.mechanisms.adapt(Own(), universe)
    views = ps.mechanisms.PoolWeights(np.zeros((1, SIZE), dtype=np.uint32), np.full((1, SIZE), 1.0 / SIZE), 1)
    print(pure.p_star, rates.p_star, column.size, channel.universe, grr.mass({"value": np.array([0, 1])}, views).shape)
    print(sorted(ps.mechanisms.MECHANISMS))
    return [
        adapted,
        ps.mechanisms.make("grr", SIZE, {"epsilon": 2.0}),
        ps.mechanisms.with_instantaneous_round(grr, "grr", epsilon_1=0.5),
        ps.mechanisms.BLH(universe=SIZE, epsilon=1.0),
        ps.mechanisms.CMS(universe=SIZE, epsilon=4.0, m=16, hashes=8),
        ps.mechanisms.DBitFlip(universe=SIZE, epsilon=1.0, buckets=10, d=4),
        ps.mechanisms.Empirical(universe=2, samples=np.array([[0, 0], [0, 1], [1, 1]])),
        ps.mechanisms.HCMS(universe=SIZE, epsilon=4.0, m=16, hashes=8),
        ps.mechanisms.HadamardResponse(universe=SIZE, epsilon=2.0),
        ps.mechanisms.Identity(universe=SIZE),
        ps.mechanisms.LGRR(universe=SIZE, **two),
        ps.mechanisms.LOLOHA(universe=SIZE, epsilon_perm=2.0, epsilon_1=1.0),
        ps.mechanisms.LOSUE(universe=SIZE, **two),
        ps.mechanisms.LOUE(universe=SIZE, **two),
        ps.mechanisms.LSOUE(universe=SIZE, **two),
        ps.mechanisms.LSUE(universe=SIZE, **two),
        ps.mechanisms.NoHashCMS(universe=SIZE, epsilon=4.0),
        ps.mechanisms.OLH(universe=SIZE, epsilon=2.0),
        ps.mechanisms.OUE(universe=SIZE, epsilon=2.0),
        ps.mechanisms.PIRappor(universe=SIZE, epsilon=1.0),
        ps.mechanisms.Rappor(universe=SIZE, m=16, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75),
        ps.mechanisms.SHE(universe=SIZE, epsilon=1.0),
        ps.mechanisms.SUE(universe=SIZE, epsilon=1.0),
        ps.mechanisms.SpotMe(universe=SIZE, epsilon=1.0),
        ps.mechanisms.SubsetSelection(universe=SIZE, epsilon=1.0),
        ps.mechanisms.THE(universe=SIZE, epsilon=1.0),
    ]


def multidimensional(adversary: ps.Adversary) -> None:
    """Reports on several attributes."""
    attributes, rng = {"first": SIZE, "second": 3}, np.random.default_rng(1)
    priors = {"first": [1.0 / SIZE] * SIZE, "second": [0.5, 0.3, 0.2]}
    rsfd = ps.mechanisms.RSFD.claiming(attributes, claimed_epsilon=2.0, randomizer="oue", fake="random")
    kinds: list[ps.mechanisms.Multidimensional] = [
        ps.mechanisms.SPL(attributes, epsilon=2.0),
        ps.mechanisms.SMP(attributes, epsilon=2.0, randomizer=["grr", "sue"]),
        ps.mechanisms.RSRFD(attributes, epsilon=2.0, priors=priors),
        rsfd,
    ]
    for kind in kinds:
        whole: ps.Mechanism = kind
        reports = kind.obfuscate([[0, 1]] * 50, rng)
        likelihood: ps.mechanisms.AttributeLikelihood = kind.attribute_likelihood(reports, "first", priors)
        found: dict[str, ps.Frequencies] = ps.mechanisms.attribute_frequencies(kind, reports)
        variance = ps.mechanisms.attribute_variance(kind, "second", priors["second"], 50)
        posterior = ps.mechanisms.attribute_posterior(kind, reports, adversary, attribute="first", beliefs=priors)
        print(whole.epsilon, likelihood.offset.shape, found["second"].counts, variance, posterior.shape)
    entries = [[[1] + [0] * (SIZE - 1), [0, 1, 1]]]
    print(ps.mechanisms.sampled_attribute_posterior(rsfd, ps.mechanisms.reports_from_tuples(rsfd, entries)))


def devices(made: list[ps.Mechanism]) -> None:
    """What devices send over time, those of one's own among them."""
    all_devices: list[ps.mechanisms.Device] = [
        Twice(made[0]),
        Remembering(made[1]),
        ps.mechanisms.Fresh(made[0]),
        ps.mechanisms.Memoized(made[1]),
    ]
    all_devices += [ps.mechanisms.device_of(mechanism) for mechanism in made]
    keys = np.array([1], dtype=np.uint64)
    for device in all_devices:
        reports = ps.mechanisms.reports_of(device, np.array([[1, 1]]), keys)
        if isinstance(device, ps.mechanisms.MemoizingDevice):
            distribution: ps.mechanisms.IdenticalReports | ps.mechanisms.NoisyBits | ps.mechanisms.NoisyValues = (
                device.likelihood(reports).distribution
            )
            print(type(distribution).__name__)
        same: ps.Device = device
        match same:
            case (
                ps.mechanisms.MemoizedFlips()
                | ps.mechanisms.MemoizedHash()
                | ps.mechanisms.MemoizedPositions()
                | ps.mechanisms.MemoizedResponse()
                | ps.mechanisms.MemoizedRappor()
            ):
                print(same.mechanism.epsilon, same.memoizes)
            case _:
                pass
    kept: ps.metrics.MemoizedResponses | None = ps.metrics.memoized_by(ps.mechanisms.Memoized(made[1]))
    policy: ps.mechanisms.ReportingPolicy = ps.mechanisms.ReportingPolicy(reports_per_day=2.0, cap=90)
    sent: ps.mechanisms.ReportedEvents = policy.select_events(np.array([[3, 4, 5]]), keys)
    spent: ps.metrics.CumulativeEpsilon = ps.metrics.cumulative_epsilon(4.0, policy, memoized=kept)
    print(sent.lengths, spent.year)


def collections(summary: ps.Summary) -> None:
    """What several collections of one person reveal together."""
    about: ps.metrics.CollectionsSummary | None = summary.collections
    if about is None:
        return
    own: tuple[ps.metrics.CollectionRecord, ...] = about.collections
    added: tuple[ps.metrics.Contribution, ...] = about.contributions
    exposed: tuple[ps.metrics.JointExposure, ...] = about.exposures
    print(own[0].epsilon.day, added[0].log_odds.value, exposed[0].only_jointly.value)
    tuples: ps.metrics.TupleEpsilon | None = about.multidimensional
    guessed: tuple[ps.metrics.SampledAttribute, ...] = about.sampled_attributes
    print(tuples, guessed)


def numbers(game: ps.Game, outcomes: pl.DataFrame) -> None:
    """Every metric of a game that was played."""
    rows = ps.metrics.select(outcomes, "strong", 10)
    records: ps.metrics.Records[ps.metrics.Record] = ps.summarize(outcomes, game, seed=1)
    best: ps.metrics.Record = ps.metrics.strongest_attack(ps.metrics.summarize(outcomes, game, seed=1))
    prior = dict.fromkeys(game.universe.pool_names, 1 / 3)
    estimates: list[ps.metrics.Estimate] = [
        best.auc_pn,
        ps.metrics.auc_pn(rows, seed=1),
        ps.metrics.bayes_risk_ratio(rows, 1 / 3),
        ps.metrics.bayes_security(rows, k=3, seed=1),
        ps.metrics.bootstrap(rows, "brier", seed=1, resamples=20),
        ps.metrics.brier(rows),
        ps.metrics.difference(rows, rows, metric="auc_pn", resamples=20),
        ps.metrics.ece(rows, seed=1),
        ps.metrics.log_odds_gain(rows, prior),
        ps.metrics.exposed(rows, 0.9, 10),
        ps.metrics.min_entropy_leakage(rows, 1 / 3),
        ps.metrics.precision(rows, seed=1),
        ps.metrics.precision_at_threshold(rows, 0.5),
        ps.metrics.reports_to_exposure(rows, threshold=0.5),
        ps.metrics.confident(rows, 0.9),
    ]
    shares: list[float] = [
        ps.metrics.ece_null_p95(rows, seed=1),
        ps.metrics.success_bound(epsilon=1.0, n=2, prior_success=1 / 3),
        ps.metrics.composed_success_bound([1.0, 2.0], [2, 1], 1 / 3),
        ps.metrics.shuffle_epsilon(4.0, devices=100_000, delta=1e-6),
        ps.metrics.shuffle_epsilon_closed_form(1.0, devices=10_000, delta=1e-6),
        ps.metrics.shuffle_epsilon_of_mechanism(game.mechanism, devices=100_000, delta=1e-6),
        float(ps.metrics.successes(rows).mean()),
    ]
    pools: list[ps.metrics.PoolRecord] = ps.metrics.per_pool(rows, 10)
    linkable: tuple[ps.metrics.Linkability, ...] = ps.metrics.linkability(game, users=10, seed=1)
    curve: ps.metrics.TradeOff = ps.metrics.trade_off(epsilon=1.0, n=2)
    seen: ps.metrics.Usefulness | None = ps.metrics.usefulness(
        ps.mechanisms.GRR(universe=30, epsilon=2.0),
        ps.Universe.sized(30, {"a": 5, "b": 5, "c": 5}),
        np.ones(30),
        reports=1000,
    )
    assert seen is not None
    assert seen.objects == 30
    assert 0 < ps.metrics.top_recall(np.array([0.5, 0.3, 0.2]), np.full(3, 0.1), k=1) < 1
    print(ps.metrics.summary_text(records), estimates, shares, pools[0].pool, linkable, curve.advantage)
    print(
        ps.metrics.exposure(rows, horizon=10).height,
        ps.metrics.behavior_map(rows, k=3).height,
        ps.metrics.calibration(rows).height,
    )


def draws() -> None:
    """What a mechanism's own ``report`` draws from."""
    keys = ps.random.child_keys(np.arange(3, dtype=np.uint64), 1)
    print(ps.random.uniforms(keys, 0), ps.random.integers(keys, 1, 6), ps.random.normals(keys, 2))


def figures(game: ps.Game, outcomes: pl.DataFrame) -> None:
    """Every figure, saved."""
    universe, rows = game.universe, ps.metrics.select(outcomes, "strong", 10)
    curves = ps.metrics.for_each_attack(outcomes, lambda some: ps.metrics.precision_curve(some, seed=1))
    maps = ps.metrics.for_each_attack(outcomes, lambda some: ps.metrics.behavior_map(some, k=3)).filter(
        adversary="strong"
    )
    beliefs = pl.DataFrame({"n": [0, 0, 1, 1], "line": ["a", "b"] * 2, "posterior": [0.5, 0.5, 0.9, 0.1]})
    charts = {
        "density": ps.figures.behavior_density(rows),
        "maps": ps.figures.behavior_maps(maps, k=3),
        "beliefs": ps.figures.belief_growth(beliefs, ["a", "b"]),
        "calibration": ps.figures.calibration_plot(ps.metrics.for_each_attack(outcomes, ps.metrics.calibration)),
        "exposure": ps.figures.exposure_curves(ps.metrics.exposure_by_adversary(outcomes, horizon=10)),
        "popularity": ps.figures.popularity_plot(game.popularity, universe.pool_of, universe.pool_names),
        "precision": ps.figures.precision_null_rate(curves, k=3),
        "trade-off": ps.figures.trade_off_curves(ps.metrics.trade_off(1.0, 7).table().with_columns(n=pl.lit(7))),
    }
    for name, chart in charts.items():
        ps.figures.save(chart, f"{name}.svg", width="column")


def main() -> None:
    """All of it; mistakes are of two types, of which one is the other."""
    print(ps.__version__)
    try:
        ps.load_scenario("no-such-scenario")
    except ps.InputError as error:
        mistake: ps.PoolscopeError = error
        print(mistake)
    commands(ps.Scenario.from_dict(TABLES))
    game, outcomes = a_game()
    on_arrays(game)
    roles(game)
    popularities(game.universe)
    devices(mechanisms(game.universe))
    multidimensional(game.adversaries[0])
    numbers(game, outcomes)
    figures(game, outcomes)
    draws()


if __name__ == "__main__":
    main()
