/* Counting for BLEU, chrF and TER: the same whole numbers as polyref/metrics/{tokens,ngram,editrate}.py, faster.

   Plain C11 behind ctypes: no Python headers, no interpreter state, nothing that can fail but memory. Texts come as code
   points, text after text; "segments x ranks" texts, the references of a segment first, then its outputs. Every function
   returns -1 when memory is short, and leaves nothing allocated. */

#ifndef POLYREF_H
#define POLYREF_H

#include <stddef.h>
#include <stdint.h>

/* Changes whenever a function's arguments or meaning do; polyref/metrics/native.py holds the number it needs. */
#define POLYREF_INTERFACE 1

#if defined(__GNUC__)
#define POLYREF_API __attribute__((visibility("default")))
#else
#define POLYREF_API
#endif

enum { POLYREF_WHITE_SPACE, POLYREF_13A, POLYREF_CHRF };

POLYREF_API int64_t polyref_interface(void);

POLYREF_API const char *polyref_source(void);

POLYREF_API int64_t polyref_words(const uint32_t *codes, const int64_t *sizes, int64_t segments, int64_t ranks,
                                  int64_t rule, int64_t *symbols, int64_t *lengths);

POLYREF_API int64_t polyref_characters(const uint32_t *codes, const int64_t *sizes, int64_t texts, int64_t *symbols,
                                       int64_t *lengths);

POLYREF_API int64_t polyref_matches(const int64_t *symbols, const int64_t *lengths, int64_t segments, int64_t ranks,
                                    int64_t references, int64_t orders, int64_t joint, int32_t *result);

POLYREF_API int64_t polyref_edits(const int64_t *symbols, const int64_t *lengths, int64_t segments, int64_t ranks,
                                  int64_t references, int64_t *result);

/* Python's str.isspace and str.split. */
static inline int is_space(uint32_t code) {
    if (code <= 0x20)
        return code == 0x20 || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
    if (code < 0x85)
        return 0;
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

static inline uint64_t mixed(uint64_t key) {
    key ^= key >> 32;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
    key *= UINT64_C(0xbf58476d1ce4e5b9);
    return key ^ (key >> 32);
}

static inline int ones(uint64_t bits) {
    bits -= (bits >> 1) & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + ((bits >> 2) & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (int)((bits * UINT64_C(0x0101010101010101)) >> 56);
}

#endif
