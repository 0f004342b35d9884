/* Translation edit rate: polyref/metrics/editrate.py, step for step. Names and order of trial are explained there. */

#include "polyref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAND = 25, LONGEST_SHIFT = 10, FARTHEST_SHIFT = 50, MOST_CANDIDATES = 1000, INSIDE = 2 * (BAND - 1) - 4 };
static const int64_t INFINITE = INT64_C(10000000000000000);

/* After some words of the output: steps up and down the reference (a bit a word), distance to all of it. */
typedef struct {
    uint64_t up, down;
    int64_t distance;
} state;

typedef struct {
    const int64_t *reference;
    int64_t size; /* of the reference */
    int64_t length; /* of the output */
    int plain; /* bit vectors instead of the band */
    int64_t *words, *moved; /* length */
    uint64_t *equal; /* places of the output's words in the reference, by place in `moved` */
    state *states; /* length + 1 */
    int64_t width, stride; /* of the band: to either side of the diagonal, and values in a row of the table */
    int64_t *top; /* size + 1: the first row, 0 1 2 .. */
    int64_t *rows; /* length x stride */
    int64_t *other; /* 2 x stride */
    int64_t *align; /* size */
    char *output_wrong, *reference_wrong;
} pair;

static state step(state before, uint64_t equal, int64_t size) {
    uint64_t full = size == 64 ? ~UINT64_C(0) : (UINT64_C(1) << size) - 1, end = UINT64_C(1) << (size - 1);
    uint64_t up = before.up, down = before.down;
    uint64_t diagonal = (((equal & up) + up) ^ up) | equal | down;
    uint64_t right_up = down | (full & ~(diagonal | up)), right_down = up & diagonal;
    state after = before;
    if (right_up & end)
        after.distance++;
    else if (right_down & end)
        after.distance--;
    right_up = (right_up << 1) | 1;
    after.up = ((right_down << 1) | ~(diagonal | right_up)) & full;
    after.down = right_up & diagonal & full;
    return after;
}

static uint64_t places(const pair *p, int64_t word) {
    uint64_t bits = 0;
    for (int64_t j = 0; j < p->size; j++)
        bits |= (uint64_t)(p->reference[j] == word) << j;
    return bits;
}

/* Where sacreBLEU's band begins and ends in a row; the first row is whole. */
static void band(const pair *p, int64_t i, int64_t *start, int64_t *end) {
    *start = 0;
    *end = p->size + 1;
    if (!i)
        return;
    double ratio = (double)p->size / (double)p->length;
    int64_t diagonal = (int64_t)floor((double)i * ratio);
    if (diagonal > p->width)
        *start = diagonal - p->width;
    if (i < p->length && diagonal + p->width < *end)
        *end = diagonal + p->width;
}

/* One row of the table inside the band; its first value belongs to the column where the band begins. */
static void band_row(const pair *p, int64_t i, int64_t word, const int64_t *above, int64_t *row) {
    int64_t above_start, above_end, start, end;
    band(p, i - 1, &above_start, &above_end);
    band(p, i, &start, &end);
    for (int64_t j = start; j < end; j++) {
        int64_t best = INFINITE;
        if (j >= above_start && j < above_end && above[j - above_start] + 1 < best)
            best = above[j - above_start] + 1;
        if (j > above_start && j <= above_end) {
            int64_t corner = above[j - 1 - above_start] + (p->reference[j - 1] != word);
            best = corner < best ? corner : best;
        }
        if (j > start && row[j - 1 - start] + 1 < best)
            best = row[j - 1 - start] + 1;
        row[j - start] = best;
    }
}

static int64_t *row_of(const pair *p, int64_t i) { return i ? p->rows + (i - 1) * p->stride : p->top; }

/* Compute the table of p->words; returns the distance. */
static int64_t read_words(pair *p) {
    if (p->plain) {
        p->states[0] = (state){p->size == 64 ? ~UINT64_C(0) : (UINT64_C(1) << p->size) - 1, 0, p->size};
        for (int64_t i = 0; i < p->length; i++)
            p->states[i + 1] = step(p->states[i], places(p, p->words[i]), p->size);
        return p->states[p->length].distance;
    }
    for (int64_t i = 1; i <= p->length; i++)
        band_row(p, i, p->words[i - 1], row_of(p, i - 1), row_of(p, i));
    int64_t start, end;
    band(p, p->length, &start, &end);
    return row_of(p, p->length)[p->size - start];
}

/* Distance of the first i words to the first j of the reference. */
static int64_t at(const pair *p, int64_t i, int64_t j) {
    if (!p->plain) {
        int64_t start, end;
        band(p, i, &start, &end);
        return j >= start && j < end ? row_of(p, i)[j - start] : INFINITE;
    }
    uint64_t before = j == 64 ? ~UINT64_C(0) : (UINT64_C(1) << j) - 1;
    return i + ones(p->states[i].up & before) - ones(p->states[i].down & before);
}

/* Distance of the words after a move (p->moved, or p->equal for bit vectors), of which the first `same` stayed. */
static int64_t after_move(pair *p, int64_t same) {
    if (p->plain) {
        state now = p->states[same];
        for (int64_t i = same; i < p->length; i++)
            now = step(now, p->equal[i], p->size);
        return now.distance;
    }
    int64_t *rows[2] = {p->other, p->other + p->stride}, start, end;
    const int64_t *above = row_of(p, same);
    for (int64_t i = same + 1; i <= p->length; i++) {
        band_row(p, i, p->moved[i - 1], above, rows[i & 1]);
        above = rows[i & 1];
    }
    band(p, p->length, &start, &end);
    return above[p->size - start];
}

/* Walk an optimal path back: which output word every reference word is aligned to or follows, and which are wrong. */
static void align(pair *p) {
    int64_t i = p->length, j = p->size;
    for (int64_t k = 0; k < j; k++)
        p->align[k] = -1;
    memset(p->output_wrong, 1, (size_t)i);
    memset(p->reference_wrong, 1, (size_t)j);
    int64_t here = at(p, i, j);
    while (i && j) {
        int64_t corner = at(p, i - 1, j - 1), above;
        char wrong = p->words[i - 1] != p->reference[j - 1];
        if (corner + wrong == here) {
            i--, j--, here = corner;
            p->align[j] = i;
            p->output_wrong[i] = p->reference_wrong[j] = wrong;
        } else if ((above = at(p, i - 1, j)) + 1 == here) {
            i--, here = above;
        } else {
            j--, here--;
            p->align[j] = i - 1;
        }
    }
}

static int any(const char *flags, int64_t count) { return memchr(flags, 1, (size_t)count) != NULL; }

#define MOVE(type, to, from)                                                                                           \
    do {                                                                                                               \
        const type *words_ = (from);                                                                                   \
        type *moved_ = (to);                                                                                           \
        int64_t end_ = start + length;                                                                                 \
        if (target < start) {                                                                                          \
            memcpy(moved_, words_, (size_t)target * sizeof(type));                                                     \
            memcpy(moved_ + target, words_ + start, (size_t)length * sizeof(type));                                    \
            memcpy(moved_ + target + length, words_ + target, (size_t)(start - target) * sizeof(type));                \
            memcpy(moved_ + end_, words_ + end_, (size_t)(total - end_) * sizeof(type));                               \
        } else {                                                                                                       \
            int64_t stop_ = target > end_ ? target : length + target < total ? length + target : total;                \
            memcpy(moved_, words_, (size_t)start * sizeof(type));                                                      \
            memcpy(moved_ + start, words_ + end_, (size_t)(stop_ - end_) * sizeof(type));                              \
            memcpy(moved_ + start + stop_ - end_, words_ + start, (size_t)length * sizeof(type));                      \
            memcpy(moved_ + stop_, words_ + stop_, (size_t)(total - stop_) * sizeof(type));                            \
        }                                                                                                              \
    } while (0)

/* Best move of all that are to be tried; returns its gain, 0 for none. The number of moves is added to *checked. */
static int64_t best_move(pair *p, int64_t distance, const uint64_t *equal, int64_t *checked, int64_t *best_start,
                         int64_t *best_length, int64_t *best_target) {
    int64_t total = p->length, found = 0, best_gain = 0;
    for (int64_t start = 0; start < total; start++) {
        int64_t low = start > FARTHEST_SHIFT ? start - FARTHEST_SHIFT : 0;
        for (int64_t place = low; place < p->size && place <= start + FARTHEST_SHIFT; place++) {
            for (int64_t length = 1; length <= LONGEST_SHIFT && start + length <= total && place + length <= p->size;
                 length++) {
                if (p->words[start + length - 1] != p->reference[place + length - 1])
                    break;
                if (!any(p->output_wrong + start, length) || !any(p->reference_wrong + place, length))
                    continue;
                if (start <= p->align[place] && p->align[place] < start + length)
                    continue;
                int64_t last = -1;
                for (int64_t offset = -1; offset < length && place + offset < p->size; offset++) {
                    int64_t target = place + offset == -1 ? 0 : p->align[place + offset] + 1;
                    if (target == last)
                        continue;
                    last = target;
                    ++*checked;
                    if (p->plain)
                        MOVE(uint64_t, p->equal, equal);
                    else
                        MOVE(int64_t, p->moved, p->words);
                    int64_t gain = distance - after_move(p, start < target ? start : target);
                    /* Largest gain, then longest, then earliest, then nearest to the start; the first of equals. */
                    int better = !found || gain > best_gain ||
                                 (gain == best_gain &&
                                  (length > *best_length ||
                                   (length == *best_length &&
                                    (start < *best_start || (start == *best_start && target < *best_target)))));
                    if (better) {
                        found = 1;
                        best_gain = gain;
                        *best_start = start;
                        *best_length = length;
                        *best_target = target;
                    }
                }
                if (*checked >= MOST_CANDIDATES)
                    return 0;
            }
        }
    }
    return found ? best_gain : 0;
}

/* Room for the table of the present pair, in which every row holds the band only; the last one reaches to the end. */
static int reserve(pair *p, int64_t *room) {
    double half = p->length ? (double)p->size / (double)p->length / 2 : 0.5;
    p->width = half > BAND ? (int64_t)ceil(half + BAND) : BAND;
    p->stride = 2 * p->width + 1;
    if (p->rows && (p->length + 2) * p->stride <= *room)
        return 0;
    free(p->rows);
    *room = (p->length + 2) * p->stride;
    p->rows = malloc((size_t)*room * sizeof *p->rows);
    return p->rows ? 0 : -1;
}

/* Edits and shifts of the present pair, -1 if memory is short. */
static int64_t edits(pair *p, uint64_t *equal, int64_t *room) {
    int64_t total = p->length, difference = total > p->size ? total - p->size : p->size - total;
    if (!p->size)
        return total;
    int64_t distance = 0, shifts = 0, checked = 0;
    p->plain = p->size <= 64;
    if (p->plain) {
        distance = read_words(p);
        p->plain = distance + difference <= INSIDE;
    }
    if (!p->plain) {
        if (reserve(p, room))
            return -1;
        p->other = p->rows + total * p->stride;
        distance = read_words(p);
    }
    while (distance) {
        int64_t start = 0, length = 0, target = 0;
        align(p);
        if (p->plain)
            for (int64_t i = 0; i < total; i++)
                equal[i] = places(p, p->words[i]);
        if (best_move(p, distance, equal, &checked, &start, &length, &target) <= 0)
            break;
        MOVE(int64_t, p->moved, p->words);
        memcpy(p->words, p->moved, (size_t)total * sizeof *p->words);
        shifts++;
        distance = read_words(p);
    }
    return shifts + distance;
}

/* Edits and block shifts between every output and every reference.

   symbols, lengths: as for polyref_matches.
   result: segments x outputs x references. */
int64_t polyref_edits(const int64_t *symbols, const int64_t *lengths, int64_t segments, int64_t ranks,
                      int64_t references, int64_t *result) {
    int64_t outputs = ranks - references, tallest = 0, widest = 0, room = 0;
    for (int64_t segment = 0; segment < segments; segment++)
        for (int64_t rank = 0; rank < ranks; rank++) {
            int64_t length = lengths[segment * ranks + rank];
            if (rank < references)
                widest = length > widest ? length : widest;
            else
                tallest = length > tallest ? length : tallest;
        }
    pair p = {0};
    size_t tall = (size_t)tallest + 1, wide = (size_t)widest + 1;
    uint64_t *equal = malloc(tall * sizeof *equal);
    const int64_t **starts = malloc(((size_t)ranks + 1) * sizeof *starts);
    int64_t *twins = malloc(((size_t)ranks + 1) * sizeof *twins);
    p.words = malloc(tall * sizeof *p.words);
    p.moved = malloc(tall * sizeof *p.moved);
    p.equal = malloc(tall * sizeof *p.equal);
    p.states = malloc((tall + 1) * sizeof *p.states);
    p.top = malloc(wide * sizeof *p.top);
    p.align = malloc(wide * sizeof *p.align);
    p.output_wrong = malloc(tall);
    p.reference_wrong = malloc(wide);
    int64_t status = equal && starts && twins && p.words && p.moved && p.equal && p.states && p.top && p.align &&
                             p.output_wrong && p.reference_wrong
                         ? 0
                         : -1;
    for (size_t j = 0; j < wide && !status; j++)
        p.top[j] = (int64_t)j;
    for (int64_t segment = 0; segment < segments && !status; segment++, lengths += ranks) {
        /* Systems often agree, and paraphrases repeat: every pair is compared once. */
        for (int64_t rank = 0; rank < ranks; rank++) {
            starts[rank] = symbols;
            symbols += lengths[rank];
            twins[rank] = rank < references ? 0 : references;
            while (lengths[twins[rank]] != lengths[rank] ||
                   memcmp(starts[twins[rank]], starts[rank], (size_t)lengths[rank] * sizeof *symbols))
                twins[rank]++;
        }
        for (int64_t rank = references; rank < ranks; rank++) {
            int64_t *row = result + (segment * outputs + rank - references) * references;
            if (twins[rank] < rank) {
                memcpy(row, row + (twins[rank] - rank) * references, (size_t)references * sizeof *row);
                continue;
            }
            for (int64_t reference = 0; reference < references; reference++) {
                if (twins[reference] < reference) {
                    row[reference] = row[twins[reference]];
                    continue;
                }
                p.reference = starts[reference];
                p.size = lengths[reference];
                p.length = lengths[rank];
                memcpy(p.words, starts[rank], (size_t)p.length * sizeof *p.words);
                row[reference] = edits(&p, equal, &room);
                if (row[reference] < 0)
                    status = -1;
            }
        }
    }
    free(equal);
    free(starts);
    free(twins);
    free(p.words);
    free(p.moved);
    free(p.equal);
    free(p.states);
    free(p.top);
    free(p.rows);
    free(p.align);
    free(p.output_wrong);
    free(p.reference_wrong);
    return status;
}
