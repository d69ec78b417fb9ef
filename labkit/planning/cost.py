"""What tokens and successes cost, from a price and a measured throughput.

It is the price of the accelerators for the time they ran. Hosts, storage, idle reserve, retries
and failed runs are not in it unless the price has them.
"""

from __future__ import annotations

from labkit.errors import PlanningError
from labkit.planning.formulas import formula
from labkit.planning.quantity import Quantity, positive, whole
from labkit.planning.units import parse_unit

PER_SECOND = {
    str(parse_unit(f"{kind} token/s")): f"$/M {kind} token" for kind in ("output", "processed")
}


@formula
def cost_per_million(*, price: Quantity, gpus: Quantity, throughput: Quantity) -> Quantity:
    """Return the price of a million tokens, of the kind that the throughput counts.

    Args:
        price: In `$/GPU/hour`.
        gpus: How many were provisioned, in `GPU`; a whole number.
        throughput: In `output token/s` or `processed token/s`.

    Raises:
        PlanningError: If one is not above zero, not whole where it counts, or in another unit.
    """
    if str(throughput.unit) not in PER_SECOND:
        raise PlanningError(
            f"`throughput` must be in one of {', '.join(PER_SECOND)}; got {throughput}. "
            "A rate of requests or of unnamed tokens gives no price of a token."
        )
    per_million = PER_SECOND[str(throughput.unit)]
    provisioned = whole(positive(gpus, name="gpus", unit="GPU"), name="gpus")
    rate = positive(price, name="price", unit="$/GPU/hour") * provisioned
    per_token = rate.to("$/s") / positive(throughput, name="throughput", unit=str(throughput.unit))
    return per_token.to(per_million)


@formula
def cost_per_success(*, cost: Quantity, successes: Quantity) -> Quantity:
    """Return what one success cost: all of the cost, the failed attempts' part included.

    Args:
        cost: The whole cost, in `$`.
        successes: How many attempts met the fixed criterion, in `success`.

    Raises:
        PlanningError: If nothing succeeded, a success is a part of one, or a unit is another one.
    """
    spent = positive(cost, name="cost", unit="$")
    found = whole(positive(successes, name="successes", unit="success"), name="successes")
    return spent / found


@formula
def cost_per_thousand_successes(
    *, price: Quantity, gpus: Quantity, throughput: Quantity, tokens_per_success: Quantity
) -> Quantity:
    """Return the price of a thousand successes from the output tokens that one takes.

    Args:
        price: In `$/GPU/hour`.
        gpus: In `GPU`.
        throughput: In `output token/s`.
        tokens_per_success: In `output token/success`, the failed attempts' tokens included.

    Raises:
        PlanningError: If one is not above zero, or in another unit.
    """
    per_token = _per_output_token(price=price, gpus=gpus, throughput=throughput)
    tokens = positive(tokens_per_success, name="tokens_per_success", unit="output token/success")
    return (per_token * tokens).to("$/1,000 successes")


@formula
def cost_per_thousand_successes_by_rate(
    *,
    price: Quantity,
    gpus: Quantity,
    throughput: Quantity,
    tokens_per_attempt: Quantity,
    success_rate: Quantity,
) -> Quantity:
    """Return the same from the tokens of an attempt and the share of attempts that succeed.

    Args:
        price: In `$/GPU/hour`.
        gpus: In `GPU`.
        throughput: In `output token/s`.
        tokens_per_attempt: In `output token/attempt`.
        success_rate: In `success/attempt`, above 0 and at most 1.

    Raises:
        PlanningError: If one is out of range, or in another unit.
    """
    rate = positive(success_rate, name="success_rate", unit="success/attempt")
    if rate.value > 1:
        raise PlanningError(
            "`success_rate` must be at most 1, a success for every attempt; "
            f"got success_rate={float(rate.value):g}. Divide a percentage by 100."
        )
    tokens = positive(tokens_per_attempt, name="tokens_per_attempt", unit="output token/attempt")
    per_token = _per_output_token(price=price, gpus=gpus, throughput=throughput)
    return (per_token * tokens / rate).to("$/1,000 successes")


def _per_output_token(*, price: Quantity, gpus: Quantity, throughput: Quantity) -> Quantity:
    positive(throughput, name="throughput", unit="output token/s")
    return cost_per_million(price=price, gpus=gpus, throughput=throughput).to("$/output token")
