/* Texts to words, and words to numbers: sacreBLEU's 13a, chrF++'s words, or plain white space. */

#include "polyref.h"

#include <stdlib.h>
#include <string.h>

#ifndef POLYREF_SOURCE
#define POLYREF_SOURCE "unknown"
#endif

int64_t polyref_interface(void) { return POLYREF_INTERFACE; }

/* SHA-256 of the source files, as hatch_build.py passes it. */
const char *polyref_source(void) { return POLYREF_SOURCE; }

typedef struct {
    const uint32_t *start;
    int64_t length; /* 0: a free place; no word is empty */
    uint64_t hash;
    int64_t number;
} entry;

/* Words of one segment, numbered in the order in which they appear. */
typedef struct {
    entry *entries;
    size_t places; /* a power of two */
    size_t used;
} vocabulary;

static int grow(vocabulary *words) {
    size_t places = words->places ? 2 * words->places : 256;
    entry *entries = calloc(places, sizeof *entries);
    if (!entries)
        return -1;
    for (size_t i = 0; i < words->places; i++) {
        if (!words->entries[i].length)
            continue;
        size_t place = words->entries[i].hash & (places - 1);
        while (entries[place].length)
            place = (place + 1) & (places - 1);
        entries[place] = words->entries[i];
    }
    free(words->entries);
    words->entries = entries;
    words->places = places;
    return 0;
}

static int64_t number(vocabulary *words, const uint32_t *start, int64_t length) {
    uint64_t hash = (uint64_t)length;
    for (int64_t i = 0; i < length; i++)
        hash = (hash ^ start[i]) * UINT64_C(0x100000001b3);
    hash = mixed(hash);
    if (2 * words->used >= words->places && grow(words))
        return -1;
    size_t place = hash & (words->places - 1);
    for (;; place = (place + 1) & (words->places - 1)) {
        entry *found = &words->entries[place];
        if (!found->length) {
            *found = (entry){start, length, hash, (int64_t)words->used++};
            return found->number;
        }
        if (found->hash == hash && found->length == length &&
            !memcmp(found->start, start, (size_t)length * sizeof *start))
            return found->number;
    }
}

static int is_digit(uint32_t code) { return code >= '0' && code <= '9'; }

static int is_punctuation(uint32_t code) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
}

/* Punctuation that 13a always sets apart: all but the full stop, the comma, the dash and the apostrophe. */
static int stands_alone(uint32_t code) {
    return is_punctuation(code) && code != '.' && code != ',' && code != '-' && code != '\'';
}

/* Where words go; symbols == NULL after a failure. */
typedef struct {
    vocabulary words;
    int64_t *symbols;
} sink;

static int put(sink *out, const uint32_t *start, int64_t length) {
    if (!length)
        return 0;
    int64_t symbol = number(&out->words, start, length);
    if (symbol < 0)
        return -1;
    *out->symbols++ = symbol;
    return 0;
}

static int split_white_space(sink *out, const uint32_t *text, int64_t size) {
    for (int64_t i = 0; i < size;) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        int64_t begin = i;
        while (i < size && !is_space(text[i]))
            i++;
        if (put(out, text + begin, i - begin))
            return -1;
    }
    return 0;
}

/* The regular expressions of 13a add spaces only, so that every word is a piece of the text. A mark (. or ,) is set
   apart if what comes before it is no digit, unless that is a mark that was set apart for the same reason (the match
   took it), or if what follows is no digit. Both ends of a text count as spaces. */
static int split_13a(sink *out, const uint32_t *text, int64_t size) {
    int64_t begin = 0;
    int taken = 0;
    for (int64_t i = 0; i < size; i++) {
        uint32_t code = text[i];
        int apart, matched = 0;
        if (is_space(code)) {
            if (put(out, text + begin, i - begin))
                return -1;
            begin = i + 1;
            taken = 0;
            continue;
        }
        if (code == '.' || code == ',') {
            matched = !taken && !(i && is_digit(text[i - 1]));
            apart = matched || i + 1 == size || !is_digit(text[i + 1]);
        } else if (code == '-') {
            apart = i && is_digit(text[i - 1]);
        } else {
            apart = stands_alone(code);
        }
        if (apart) {
            if (put(out, text + begin, i - begin) || put(out, text + i, 1))
                return -1;
            begin = i + 1;
        }
        taken = matched;
    }
    return put(out, text + begin, size - begin);
}

/* One punctuation mark at a word's end, or else at its start, is cut off. */
static int split_chrf(sink *out, const uint32_t *text, int64_t size) {
    for (int64_t i = 0; i < size;) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        const uint32_t *word = text + i;
        while (i < size && !is_space(text[i]))
            i++;
        int64_t length = text + i - word, cut = length;
        if (length > 1 && is_punctuation(word[length - 1]))
            cut = length - 1;
        else if (length > 1 && is_punctuation(word[0]))
            cut = 1;
        if (put(out, word, cut) || put(out, word + cut, length - cut))
            return -1;
    }
    return 0;
}

/* Words of texts, numbered anew in every segment.

   codes, sizes: all characters, and how many belong to every text.
   symbols: the numbers of the words, text after text; has room for as many as there are characters.
   lengths: the number of words of every text.
   Returns a number that all symbols are below. */
int64_t polyref_words(const uint32_t *codes, const int64_t *sizes, int64_t segments, int64_t ranks, int64_t rule,
                      int64_t *symbols, int64_t *lengths) {
    sink out = {{NULL, 0, 0}, symbols};
    int64_t alphabet = 1;
    for (int64_t segment = 0; segment < segments && alphabet > 0; segment++) {
        if (out.words.used)
            memset(out.words.entries, 0, out.words.places * sizeof *out.words.entries);
        out.words.used = 0;
        for (int64_t rank = 0; rank < ranks; rank++) {
            int64_t text = segment * ranks + rank;
            int64_t *before = out.symbols;
            int failed = rule == POLYREF_13A    ? split_13a(&out, codes, sizes[text])
                         : rule == POLYREF_CHRF ? split_chrf(&out, codes, sizes[text])
                                                : split_white_space(&out, codes, sizes[text]);
            if (failed) {
                alphabet = -1;
                break;
            }
            lengths[text] = out.symbols - before;
            codes += sizes[text];
        }
        if (alphabet > 0 && (int64_t)out.words.used > alphabet)
            alphabet = (int64_t)out.words.used;
    }
    free(out.words.entries);
    return alphabet;
}

/* Characters of texts without white space: the code points themselves, and how many every text has. Returns a number
   that all symbols are below. */
int64_t polyref_characters(const uint32_t *codes, const int64_t *sizes, int64_t texts, int64_t *symbols,
                           int64_t *lengths) {
    uint32_t largest = 0;
    for (int64_t text = 0; text < texts; text++) {
        int64_t *before = symbols;
        for (int64_t i = 0; i < sizes[text]; i++) {
            uint32_t code = codes[i];
            if (is_space(code))
                continue;
            largest = code > largest ? code : largest;
            *symbols++ = code;
        }
        lengths[text] = symbols - before;
        codes += sizes[text];
    }
    return (int64_t)largest + 1;
}
