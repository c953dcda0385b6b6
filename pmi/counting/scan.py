"""The compiled inner loop: bytes of text become word numbers, and windows are formed around gendered words only.

Counting all pairs of words within a window would cost words × window. PMI with gendered words needs
only the pairs of which one word is gendered (about one word in twenty), so windows are formed around
those, in three steps. None of them holds the interpreter lock.

1. :func:`tokenise` splits bytes into tokens (:mod:`pmi.counting.characters`) and numbers them with a hash
   table (:mod:`pmi.counting.word_table`).
2. :func:`resolve` replaces tokens by words, removes stop words, and counts words and pairs of any two words.
3. :func:`count_pairs` adds up the pairs of each gendered word with the words around it.

Example: the text "She saw the ship." with the gendered words *she* (number 0) and *he* (1), the stop
word *the* (2) and a window of 10. Step 1 gives the tokens [0, 3, 2, 4], with the new numbers 3 for *saw*
and 4 for *ship*. In step 2 ``target[2]`` is NO_WORD, so the words are [0, 3, 4], with
0 + 1 + 2 = 3 pairs of any two words. Step 3 finds one gendered word, at place 0, and adds 1 to the count
of (*saw*, *she*) and of (*ship*, *she*).

Text arrives in blocks cut anywhere. Step 1 stops before a token that the end of the buffer may cut, and
step 3 receives the last ``window`` words of the previous call in front of the new ones.
"""

from typing import Any

import numpy as np

from pmi.counting.characters import CUT, DIGIT, LOWER, PADDING, WORD, class_of, decode, eight, token_end
from pmi.counting.state import BOUNDARY, LONGEST, NO_ROW, NO_WORD, RECORD_END, ROWS_PER_BLOCK, SEVERAL, State, compiled
from pmi.counting.word_table import WordTable, enter, lookup, slot_of
from pmi.types import Int32Array, IntArray, Uint8Array


@compiled
def tokenise(
    data: Uint8Array, i: int, final: bool, break_lines: bool, classes: Uint8Array, table: WordTable, state: State,
    tokens: Int32Array,
) -> tuple[int, int, bool]:  # fmt: skip
    """Writes the numbers of the tokens of ``data`` from byte i on, with BOUNDARY at the end of a record or line.

    Parameters
    ----------
    data:
        The bytes, and PADDING zeros after them.
    final:
        Whether no text follows; otherwise a token that the end of the buffer may cut is left for the next call.
    break_lines:
        Whether a window ends with the line.

    Returns
    -------
    tuple
        The byte to continue at, how many numbers were written, and whether an array was full.
    """
    n = data.shape[0] - PADDING
    written = 0
    slots, low, high, pool, _ = table
    mask = slots.shape[0] - 1
    max_entries = min(low.shape[0], slots.shape[0] // 2)
    if state.skipping:
        i, last, whole = token_end(data, i, n, state.last_class, classes)
        state.last_class = last
        if not (whole or final):
            return i, written, False
        state.skipping = 0
    while i < n and written < tokens.shape[0]:
        # Skip what separates tokens.
        byte = data[i]
        if LOWER[byte] == 0:
            if byte < 0x80:
                if byte == 10 and break_lines:
                    tokens[written] = BOUNDARY
                    written += 1
                i += 1
                continue
            if byte == RECORD_END:
                tokens[written] = BOUNDARY
                written += 1
                state.documents += 1
                i += 1
                continue
            decoded = decode(data, i, n)
            if decoded == CUT and not final:
                return i, written, False
            if decoded < 0:
                state.invalid_bytes += 1
                i += 1
                continue
            if not class_of(classes, decoded) & WORD:
                i += decoded & 7
                continue
        # Fast path: up to 15 ASCII letters and digits become the key (a, b), 8 at a time.
        start = i
        a, length = eight(data, i)
        b = np.uint64(0)
        i += length
        if length == 8:
            b, length = eight(data, i)
            if length == 8:
                b, length = b & np.uint64(0xFFFFFFFFFFFFFF), 7
            i += length
        end = i
        # Nearly always the token ends here: white space follows, or a point or comma before white space. Otherwise the
        # token may continue, and the general rule finds its end.
        byte = data[i] if i < n else RECORD_END
        after = data[i + 1] if i + 1 < n else RECORD_END
        if byte >= 0x80 or classes[byte] & (WORD | DIGIT) or (classes[byte] and (after >= 0x80 or classes[after])):
            last = np.int64(classes[data[i - 1]]) if i > start else np.int64(0)
            end, last, whole = token_end(data, i, n, last, classes)
            if not (whole or final):
                if end - start <= LONGEST:
                    return start, written, False
                # The token is too long already: forget it, and skip the rest of it in the next call.
                state.long_tokens += 1
                state.skipping = 1
                state.last_class = last
                return end, written, False
            if end - start > LONGEST:
                state.long_tokens += 1
                i = max(end, i)
                continue
        if end > i:
            if state.entries >= max_entries or state.pool_bytes + LONGEST + 2 > pool.shape[0]:
                return start, written, True
            tokens[written] = lookup(data, start, end, table, state)
            i = end
        else:
            b |= np.uint64(end - start) << np.uint64(56)
            slot = slot_of(a, b, mask)
            entry = slots[slot]
            while entry >= 0 and (low[entry] != a or high[entry] != b):
                # Linear probing: the next slot is in the same cache line most of the time.
                slot = (slot + 1) & mask
                entry = slots[slot]
            if entry < 0:
                if state.entries >= max_entries:
                    return start, written, True
                entry = enter(a, b, data, start, end, table, state)
            tokens[written] = entry
        written += 1
    return i, written, i < n


@compiled
def resolve(
    tokens: Int32Array, i: int, n: int, cross_records: bool, window: int,
    target: Int32Array, several: Int32Array, starts: Int32Array, word_counts: IntArray, state: State,
    words: Int32Array, m: Any,
) -> tuple[int, int]:  # fmt: skip
    """Writes the words of the tokens i to n to ``words`` from place m on, and counts them.

    The number of pairs of any two words needs no windows: a word forms a pair with each of the words before
    it since the last boundary, at most ``window`` of them.

    Parameters
    ----------
    several, starts:
        The words of tokens that stand for several: those of the k-th such token are several[starts[k]:starts[k + 1]].

    Returns
    -------
    tuple
        The token to continue at, which is n unless ``words`` was full, and the new m.
    """
    counted, pairs, before = state.words, state.pairs, state.words_before
    while i < n and m + LONGEST < words.shape[0]:
        token = tokens[i]
        i += 1
        if token < 0:
            if not cross_records:
                words[m] = BOUNDARY
                m += 1
                before = 0
            continue
        word = target[token]
        if word >= NO_WORD:
            # Half of all tokens are stop words, and a processor cannot predict which. So instead of a branch, a stop
            # word is written and then overwritten, because m does not advance.
            is_word = np.int64(word >= 0)
            words[m] = word
            m += is_word
            word_counts[max(word, 0)] += is_word
            counted += is_word
            pairs += before * is_word
            before = min(before + is_word, window)
            continue
        for k in range(starts[SEVERAL - word], starts[SEVERAL - word + 1]):
            words[m] = several[k]
            m += 1
            word_counts[several[k]] += 1
            counted += 1
            pairs += before
            before = min(before + 1, window)
    state.words, state.pairs, state.words_before = counted, pairs, before
    return i, m


@compiled
def count_pairs(
    words: Int32Array, i: int, n: int, n_carried: int, n_gendered: int, window: int,
    row_of: Any, pair_counts: Any, state: State,
) -> int:  # fmt: skip
    """Adds the pairs of the gendered words at places i to n with the words around them.

    The first ``n_carried`` words were in the previous call too, so pairs among them are not counted again.
    Pair counts have the shape (blocks, gendered, ROWS_PER_BLOCK): inside a block the counts of one gendered
    word are contiguous, and frequent words come early, so the counts that change most share few cache lines.
    A word gets a row at its first pair.

    Returns
    -------
    int
        The place to continue at, which is n unless there were no rows left.
    """
    rows = np.uint32(state.rows)
    for g in range(i, n):
        gendered = words[g]
        if gendered < 0 or gendered >= n_gendered:
            continue
        # Arrays cannot grow in here; the caller enlarges them and comes back at this place.
        if rows + 2 * window > pair_counts.shape[0] * ROWS_PER_BLOCK:
            state.rows = rows
            return g
        begin, end = g, g + 1
        lowest, highest = max(g - window, 0), min(g + window + 1, n)
        while begin > lowest and words[begin - 1] >= 0:
            begin -= 1
        while end < highest and words[end] >= 0:
            end += 1
        # Words carried over were counted with those before them already, so only pairs with new words are left.
        for j in range(begin if g >= n_carried else max(g + 1, n_carried), end):
            if j != g:
                other = words[j]
                row = row_of[other]
                if row == NO_ROW:
                    row = rows
                    row_of[other] = row
                    rows += np.uint32(1)
                pair_counts[row // ROWS_PER_BLOCK, gendered, row % ROWS_PER_BLOCK] += 1
    state.rows = rows
    return n
