"""B(n): the utilisation of a node above which the latency of what runs on it leaves its band."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from stormpilot.history.mine.columns import MAD_TO_SIGMA, evidence, quantile

BIN = 0.01
"""Width of a bin of utilisation."""
LEAST_WINDOWS_OF_BIN = 5
LOWEST, STEP, CANDIDATES = 0.30, 0.005, 140
"""Knees that are tried: from 0.30 in steps of 0.005 to 0.995."""
LEAST_BINS = 3
"""Bins below and above a candidate. A knee with only this many bins above it is rejected: it slid down to keep them."""
FLAT = 1e-9
"""A slope (usual latencies per utilisation) that is nothing but rounding, which differs with the order of rows."""


def latency_bins(windows: DataFrame) -> DataFrame:
    """Median latency by utilisation of the busiest node: supervisor, load_ratio, latency_ratio, windows, evidence.

    From `windows`: a topology's latency belongs to the busiest node that it runs on. The 95th percentile of a window
    over the topology's own median, so that topologies on one node compare.
    """
    of_topology = Window.partitionBy("topology_name")
    usable = windows.where(
        fn.col("measured") & (fn.col("latency_p95_ms") > 0) & (fn.col("busiest_load_ratio") > 0)
    ).withColumn("usual_ms", quantile("latency_p95_ms", 0.5).over(of_topology))
    return (
        usable.withColumn("bin", fn.round(fn.col("busiest_load_ratio") / BIN))
        .groupBy(fn.col("busiest_supervisor").alias("supervisor"), "bin")
        .agg(
            fn.avg("busiest_load_ratio").alias("load_ratio"),
            fn.median(fn.col("latency_p95_ms") / fn.col("usual_ms")).alias("latency_ratio"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.min("window_from").alias("first"),
            fn.max("window_to").alias("last"),
        )
        .where(fn.col("rows") >= LEAST_WINDOWS_OF_BIN)
        .drop("bin")
    )


def knees(latency_bins: DataFrame) -> DataFrame:
    """The knee by supervisor: supervisor, knee_ratio, rise_ratio, band_ratio, bins_above, highest_ratio, evidence.

    ln(latency) = level + slope x max(0, utilisation - knee), bins weighted by their windows; the candidate with the
    least squares is the knee. The logarithm keeps the bins far above the knee, where latency grows without bound, from
    ruling the fit, so that none has to be left out. `rise_ratio` is the part by which latency rises from the knee to
    the highest utilisation, `band_ratio` three times the scatter below the knee. A supervisor that was not seen on both
    sides of a knee, or in no more than `LEAST_BINS` bins above it, is not in the result.
    """
    tried = fn.explode(fn.transform(fn.sequence(fn.lit(0), fn.lit(CANDIDATES - 1)), lambda i: LOWEST + STEP * i))
    w, x, y = fn.col("rows"), fn.col("x"), fn.ln("latency_ratio")
    points = latency_bins.withColumn("knee_ratio", tried).withColumn(
        "x", fn.greatest(fn.lit(0.0), fn.col("load_ratio") - fn.col("knee_ratio"))
    )
    sums = (
        points.groupBy("supervisor", "knee_ratio")
        .agg(
            fn.sum(w).alias("w"),
            fn.sum(w * x).alias("wx"),
            fn.sum(w * y).alias("wy"),
            fn.sum(w * x * x).alias("wxx"),
            fn.sum(w * x * y).alias("wxy"),
            fn.sum(w * y * y).alias("wyy"),
            fn.count_if(x > 0).alias("bins_above"),
            fn.count_if(x == 0).alias("bins_below"),
            fn.max("load_ratio").alias("highest_ratio"),
            fn.sum("rows").alias("rows"),
            fn.min("first").alias("first"),
            fn.max("last").alias("last"),
        )
        .where((fn.col("bins_above") >= LEAST_BINS) & (fn.col("bins_below") >= LEAST_BINS))
    )
    sxx, sxy = fn.expr("wxx - wx * wx / w"), fn.expr("wxy - wx * wy / w")
    fits = (
        sums.withColumn("slope", sxy / sxx)
        .withColumn("level", (fn.col("wy") - fn.col("slope") * fn.col("wx")) / fn.col("w"))
        .withColumn("left", fn.expr("wyy - wy * wy / w") - fn.col("slope") * sxy)
        .where(fn.col("slope") > FLAT)
    )
    best = (
        fits.groupBy("supervisor")
        .agg(fn.min_by(fn.struct(*fits.columns), fn.struct("left", "knee_ratio")).alias("best"))
        .select("best.*")
        .where(fn.col("bins_above") > LEAST_BINS)
    )
    scatter = (
        latency_bins.join(best.select("supervisor", "knee_ratio", "level"), "supervisor")
        .where("load_ratio <= knee_ratio")
        .groupBy("supervisor")
        .agg((fn.median(fn.abs(fn.ln("latency_ratio") - fn.col("level"))) * MAD_TO_SIGMA).alias("scatter"))
    )
    rise = fn.exp(fn.col("slope") * (fn.col("highest_ratio") - fn.col("knee_ratio"))) - 1
    return best.join(scatter, "supervisor").select(
        "supervisor",
        fn.round("knee_ratio", 4).alias("knee_ratio"),
        rise.alias("rise_ratio"),
        (fn.exp(3 * fn.col("scatter")) - 1).alias("band_ratio"),
        "bins_above",
        "highest_ratio",
        *("rows", "first", "last"),
    )


def seen(latency_bins: DataFrame) -> DataFrame:
    """How far each supervisor was seen: supervisor, highest_ratio, evidence."""
    return latency_bins.groupBy("supervisor").agg(fn.max("load_ratio").alias("highest_ratio"), *evidence())
