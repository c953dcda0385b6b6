"""Numbers as text: what pages, the terminal, cards and figures show of scores, intervals and counts."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


def decimals(value: float, places: int, *, signed: bool = False, missing: str = "–") -> str:
    """A number with ``places`` decimals, without a minus sign before 0; ``missing`` where it is not defined.

    >>> decimals(-0.004, 2), decimals(1.5, 1, signed=True), decimals(float("nan"), 1)
    ('0.00', '+1.5', '–')
    """
    if math.isnan(value):
        return missing
    sign = "+" if signed else ""
    # Adding 0.0 turns the -0.0 that rounding leaves into 0.0.
    return f"{round(value, places) + 0.0:{sign}.{places}f}"


def supported_digits(value: float, low: float, high: float) -> str:
    """A number with as many digits as its interval supports: the last one is at most a fifth of the interval's width.

    Without an interval, or with one of no width, there are four digits.

    >>> supported_digits(0.25123, 0.1987, 0.3121), supported_digits(32.9, 29.0, 36.7)
    ('0.25', '33')
    >>> supported_digits(0.12344, math.nan, math.nan)
    '0.1234'
    """
    places = supported_places(low, high)
    if places is None:
        return f"{value:.4g}"
    return decimals(value, places)


def supported_places(low: float, high: float) -> int | None:
    """The decimals of :func:`supported_digits`; None without an interval of some width.

    >>> supported_places(0.1987, 0.3121), supported_places(29.0, 36.7), supported_places(math.nan, math.nan)
    (2, 0, None)
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return None
    # Rounded first: a difference of floats may be a little too small, which would add a decimal.
    return max(0, math.ceil(round(math.log10(5 / width), 9)))


def interval(low: float, high: float, shown: Callable[[float], str], form: str = "[{}, {}]") -> str:
    """Both ends of an interval, each as ``shown`` says, in a form of two places; empty where an end is not finite.

    >>> interval(0.5, 1, "{:.2f}".format), interval(0.5, 1, str, "{} to {}"), interval(math.nan, math.nan, str)
    ('[0.50, 1.00]', '0.5 to 1', '')
    """
    if not math.isfinite(high - low):
        return ""
    return form.format(shown(low), shown(high))


def interval_text(value: float, low: float, high: float) -> str:
    """A value with its interval as text, with the digits that the interval supports.

    >>> interval_text(0.25123, 0.1987, 0.3121), interval_text(0.5, math.nan, math.nan)
    ('0.25 [0.20, 0.31]', '0.5')
    """

    def shown(number: float) -> str:
        return supported_digits(number, low, high)

    return shown(value) + interval(low, high, shown, " [{}, {}]")


def with_interval(numbers: Iterable[float], form: str, missing: str = "–") -> str:
    """A value in a form of Python with both ends of its interval; ``missing`` where the value is not defined.

    >>> with_interval((0.5, 0.25, 0.75), "+.2f"), with_interval((math.nan,) * 3, ".2f", "not defined")
    ('+0.50 [0.25, 0.75]', 'not defined')
    """
    value, low, high = numbers
    ends = interval(low, high, f"{{:{form.lstrip('+')}}}".format, " [{}, {}]")
    return formatted(value, form, missing) + ends


def formatted(value: float | None, form: str = "g", missing: str = "–") -> str:
    """A number in a form of Python; ``missing`` where there is none, or where it is not defined.

    >>> formatted(50.0), formatted(0.126, ".1%"), formatted(None), formatted(math.nan, ".3f", "undefined")
    ('50', '12.6%', '–', 'undefined')
    """
    if value is None or math.isnan(value):
        return missing
    return format(value, form)


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def minus(text: object) -> str:
    """A number's text with a minus sign in place of the hyphen."""
    return str(text).replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True, slots=True)
class Scale:
    """The range that the values of one metric are shown on.

    ``places`` are the decimals that a column of several metrics shares, for :meth:`brief` and :meth:`change`.
    """

    low: float
    high: float
    places: int | None = field(default=None, repr=False)

    def place(self, value: float) -> float:
        """The position of a value, in percent of the range.

        >>> Scale(0, 200).place(50), Scale(3, 3).place(3)
        (25.0, 50.0)
        """
        width = self.high - self.low
        if not width:
            return 50.0
        # An interval may reach beyond the range that is drawn.
        return round(min(max(100 * (value - self.low) / width, 0.0), 100.0), 2)

    def text(self, value: float) -> str:
        """A value with the decimals that matter on the range.

        >>> Scale(0, 100).text(39.7743), Scale(0, 1).text(0.7)
        ('39.77', '0.700')
        """
        if not math.isfinite(value):
            return "not defined" if math.isnan(value) else str(value)
        return f"{value:.{max(2, self._decimals)}f}"

    def brief(self, value: float, signed: bool = False) -> str:
        """A value in about three digits, for tables of several metrics.

        >>> Scale(0, 100).brief(39.7743), Scale(0, 1).brief(0.7), Scale(-1, 1).brief(0.5, signed=True)
        ('39.8', '0.700', '+0.50')
        """
        if math.isinf(value):
            return str(value)
        return decimals(value, self._decimals, signed=signed)

    def change(self, before: float, after: float) -> tuple[str, str, str]:
        """Before, after and their difference, as :meth:`brief`, with more digits where the texts would not add up.

        A change that rounding would hide has digits that show it, three more at most. In a column that shares its
        decimals each number is rounded by itself.

        >>> Scale(0, 1).change(0.0744, 0.1056), Scale(0, 100).change(50.02, 50.04)
        (('0.0744', '0.1056', '+0.0312'), ('50.02', '50.04', '+0.02'))
        """
        if not math.isfinite(after - before):
            return self.brief(before), self.brief(after), self.brief(after - before, signed=True)
        if self.places is not None:
            places = self.places
            return decimals(before, places), decimals(after, places), decimals(after - before, places, signed=True)
        for places in range(self._decimals, self._decimals + 4):
            start, end = round(before, places), round(after, places)
            difference = round(after - before, places)
            hidden = start == end and abs(after - before) > 10.0 ** -(self._decimals + 3)
            if not hidden and round(end - start, places) == difference:
                break
        return decimals(before, places), decimals(after, places), decimals(after - before, places, signed=True)

    def shows(self, before: float, after: float) -> bool:
        """Whether values that differ look different with the decimals of the column.

        >>> Scale(0, 1, 2).shows(0.301, 0.304), Scale(0, 1, 2).shows(0.3, 0.4), Scale(0, 1, 2).shows(math.nan, 0.3)
        (False, True, True)
        """
        if not math.isfinite(after - before):
            return True
        return before == after or self.brief(before) != self.brief(after)

    @property
    def _decimals(self) -> int:
        if self.places is not None:
            return self.places
        # Whoever uploads results may write a range that is none.
        if not self.high > self.low or math.isinf(self.high - self.low):
            return 3
        # Three digits of the range: 0.123 on [0, 1], 12.3 on [0, 100], and one decimal on any larger one.
        return max(1, 3 - math.ceil(math.log10(self.high - self.low)))


def shared_places(scales: Iterable[Scale]) -> int:
    """The decimals of a column of several metrics: those of the metric that needs most, and at most two.

    >>> shared_places([Scale(0, 100), Scale(0, 1)]), shared_places([Scale(0, 100)]), shared_places([])
    (2, 1, 1)
    """
    return min(2, max((scale._decimals for scale in scales), default=1))


def detectable_text(detectable: float, on: Scale, unit: str = " points") -> str:
    """The minimum detectable effect, with a power of 80 %, as text; empty where it is not known.

    ``unit`` follows on scales of 100 and more; ``none`` says that no difference on the scale is large enough.

    >>> detectable_text(3.14, Scale(0, 100)), detectable_text(math.inf, Scale(0, 1))
    ('3.1 points', 'none')
    """
    if math.isnan(detectable):
        return ""
    span = on.high - on.low
    return "none" if detectable > span else on.brief(detectable) + unit * (span >= 100)
