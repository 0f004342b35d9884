/* N-grams that outputs share with references.

   A feature is (n-gram, occurrence number), as in polyref/metrics/ngram.py. N-grams are numbered by (number of the
   (n-1)-gram, next symbol), so that equal numbers mean equal n-grams: nothing depends on a hash being unique. Only the
   n-grams of the outputs are numbered; whatever a reference has besides cannot match. */

#include "polyref.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

/* Everything one segment needs; arrays have room for all n-grams of its outputs unless another size is said. */
typedef struct {
    /* The table of n-grams. */
    uint64_t *keys; /* places */
    int32_t *values; /* places; NONE: free */
    size_t places; /* a power of two */
    /* By n-gram: its first feature, the last text that has it, the feature of that text's last occurrence. */
    int32_t *feature_of, *seen_by, *current;
    /* By feature: that of the next occurrence, the first reference that holds it, its number among those held. */
    int32_t *next, *first, *held;
    /* By position of an output: n-gram that starts there, its feature. The same for references, without features. */
    int32_t *grams, *found, *reference_grams;
    /* Which of the held features a text has: bits, row after row; one row for outputs. */
    uint64_t *bits;
    size_t row;
    int32_t features;
    int64_t room, reference_room, bit_room;
} work;

static int again(void *array, size_t size, int64_t count) {
    void **pointer = array;
    free(*pointer);
    *pointer = malloc((size_t)(count > 0 ? count : 1) * size);
    return *pointer ? 0 : -1;
}

static int reserve(work *w, int64_t outputs, int64_t references, int64_t rows, int64_t joint) {
    if (outputs > w->room || !w->keys) {
        w->places = 16;
        while ((int64_t)w->places < 2 * outputs)
            w->places *= 2;
        if (again(&w->keys, sizeof *w->keys, (int64_t)w->places) ||
            again(&w->values, sizeof *w->values, (int64_t)w->places))
            return -1;
        int32_t **arrays[] = {&w->feature_of, &w->seen_by, &w->current, &w->next,
                              &w->first,      &w->held,    &w->grams,   &w->found};
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
            if (again(arrays[i], sizeof(int32_t), outputs))
                return -1;
        w->room = outputs;
    }
    if (references > w->reference_room || !w->reference_grams) {
        if (again(&w->reference_grams, sizeof(int32_t), references))
            return -1;
        w->reference_room = references;
    }
    w->row = (size_t)outputs / 64 + 1;
    int64_t needed = joint ? 0 : (int64_t)w->row * (rows + 1);
    if (needed > w->bit_room || !w->bits) {
        if (again(&w->bits, sizeof *w->bits, needed))
            return -1;
        w->bit_room = needed;
    }
    return 0;
}

static void release(work *w) {
    free(w->keys);
    free(w->values);
    free(w->feature_of);
    free(w->seen_by);
    free(w->current);
    free(w->next);
    free(w->first);
    free(w->held);
    free(w->grams);
    free(w->found);
    free(w->reference_grams);
    free(w->bits);
}

/* The place of an n-gram in the table: its own, or the free one where it belongs. */
static inline size_t place_of(const work *w, uint64_t key, size_t mask) {
    size_t place = mixed(key) & mask;
    while (w->values[place] != NONE && w->keys[place] != key)
        place = (place + 1) & mask;
    return place;
}

static inline uint64_t key_of(int32_t prefix, int64_t symbol) {
    return (uint64_t)(uint32_t)prefix << 32 | (uint64_t)symbol;
}

static int32_t new_feature(work *w, int32_t references) {
    int32_t feature = w->features++;
    w->next[feature] = NONE;
    w->first[feature] = references;
    w->held[feature] = NONE;
    return feature;
}

/* Number the n-grams of the outputs, and list the feature at every position. */
static void read_outputs(work *w, const int64_t *symbols, const int64_t *lengths, int64_t outputs, int64_t order,
                         int64_t total, int32_t references) {
    size_t places = 16;
    while ((int64_t)places < 2 * total)
        places *= 2;
    size_t mask = places - 1;
    memset(w->values, 0xff, places * sizeof *w->values);
    w->places = places;
    w->features = 0;
    int32_t grams = 0;
    int64_t offset = 0;
    for (int64_t output = 0; output < outputs; offset += lengths[output++]) {
        for (int64_t i = 0; i + order <= lengths[output]; i++) {
            int64_t position = offset + i;
            uint64_t key = key_of(order > 1 ? w->grams[position] : 0, symbols[position + order - 1]);
            size_t place = place_of(w, key, mask);
            int32_t gram = w->values[place], feature;
            if (gram == NONE) {
                w->keys[place] = key;
                w->values[place] = gram = grams++;
                w->feature_of[gram] = feature = new_feature(w, references);
            } else if (w->seen_by[gram] != (int32_t)output) {
                feature = w->feature_of[gram];
            } else {
                int32_t last = w->current[gram];
                if (w->next[last] == NONE) {
                    feature = new_feature(w, references);
                    w->next[last] = feature;
                }
                feature = w->next[last];
            }
            w->seen_by[gram] = (int32_t)output;
            w->current[gram] = feature;
            w->grams[position] = gram;
            w->found[position] = feature;
        }
    }
}

/* Look up the n-grams of the references: note the first reference, or set bits. Returns the number of features held. */
static int32_t read_references(work *w, const int64_t *symbols, const int64_t *lengths, int64_t references,
                               int64_t outputs, int64_t order, int64_t joint) {
    size_t mask = w->places - 1;
    int32_t held = 0;
    int64_t offset = 0;
    for (int64_t reference = 0; reference < references; offset += lengths[reference++]) {
        int32_t text = (int32_t)(outputs + reference);
        uint64_t *bits = w->bits + (size_t)reference * w->row;
        for (int64_t i = 0; i + order <= lengths[reference]; i++) {
            int64_t position = offset + i;
            int32_t prefix = order > 1 ? w->reference_grams[position] : 0;
            if (prefix == NONE)
                continue;
            size_t place = place_of(w, key_of(prefix, symbols[position + order - 1]), mask);
            int32_t gram = w->values[place], feature;
            w->reference_grams[position] = gram;
            if (gram == NONE)
                continue;
            if (w->seen_by[gram] != text)
                feature = w->feature_of[gram];
            else
                feature = w->current[gram] == NONE ? NONE : w->next[w->current[gram]];
            w->seen_by[gram] = text;
            w->current[gram] = feature;
            if (feature == NONE)
                continue;
            if (joint) {
                if (w->first[feature] > (int32_t)reference)
                    w->first[feature] = (int32_t)reference;
            } else {
                if (w->held[feature] == NONE)
                    w->held[feature] = held++;
                bits[w->held[feature] >> 6] |= UINT64_C(1) << (w->held[feature] & 63);
            }
        }
    }
    return held;
}

/* Matches with references 0 .. j together. */
static void count_joint(const work *w, const int64_t *lengths, int64_t outputs, int64_t references, int64_t order,
                        int32_t *result) {
    memset(result, 0, (size_t)(outputs * references) * sizeof *result);
    int64_t offset = 0;
    for (int64_t output = 0; output < outputs; offset += lengths[output++], result += references) {
        for (int64_t i = 0; i + order <= lengths[output]; i++) {
            int32_t first = w->first[w->found[offset + i]];
            if (first < references)
                result[first]++;
        }
        for (int64_t reference = 1; reference < references; reference++)
            result[reference] += result[reference - 1];
    }
}

/* Matches with every single reference. */
static void count_single(work *w, const int64_t *lengths, int64_t outputs, int64_t references, int64_t order,
                          int32_t held, int32_t *result) {
    size_t used = ((size_t)held + 63) / 64;
    uint64_t *own = w->bits + (size_t)references * w->row;
    int64_t offset = 0;
    for (int64_t output = 0; output < outputs; offset += lengths[output++]) {
        memset(own, 0, used * sizeof *own);
        for (int64_t i = 0; i + order <= lengths[output]; i++) {
            int32_t number = w->held[w->found[offset + i]];
            if (number != NONE)
                own[number >> 6] |= UINT64_C(1) << (number & 63);
        }
        for (int64_t reference = 0; reference < references; reference++) {
            const uint64_t *bits = w->bits + (size_t)reference * w->row;
            int32_t matches = 0;
            for (size_t i = 0; i < used; i++)
                matches += ones(own[i] & bits[i]);
            *result++ = matches;
        }
    }
}

/* N-grams of every output that references hold, for n-grams of 1 .. orders symbols.

   symbols, lengths: the texts of segments x ranks; the first ranks are references. Symbols are below 2**31, and a
       segment has fewer than 2**31 of them.
   joint: whether entry j counts what references 0 .. j hold together, or what reference j holds.
   result: orders x segments x outputs x references. */
int64_t polyref_matches(const int64_t *symbols, const int64_t *lengths, int64_t segments, int64_t ranks,
                        int64_t references, int64_t orders, int64_t joint, int32_t *result) {
    work w = {0};
    int64_t outputs = ranks - references, status = 0;
    for (int64_t segment = 0; segment < segments; segment++, lengths += ranks) {
        int64_t reference_total = 0, output_total = 0;
        for (int64_t rank = 0; rank < references; rank++)
            reference_total += lengths[rank];
        for (int64_t rank = references; rank < ranks; rank++)
            output_total += lengths[rank];
        if (reserve(&w, output_total, reference_total, references, joint)) {
            status = -1;
            break;
        }
        for (int64_t order = 1; order <= orders; order++) {
            int32_t *here = result + (((order - 1) * segments + segment) * outputs) * references;
            read_outputs(&w, symbols + reference_total, lengths + references, outputs, order, output_total,
                         (int32_t)references);
            if (!joint)
                memset(w.bits, 0, (size_t)references * w.row * sizeof *w.bits);
            int32_t held = read_references(&w, symbols, lengths, references, outputs, order, joint);
            if (joint)
                count_joint(&w, lengths + references, outputs, references, order, here);
            else
                count_single(&w, lengths + references, outputs, references, order, held, here);
        }
        symbols += reference_total + output_total;
    }
    release(&w);
    return status;
}
