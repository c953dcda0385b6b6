/* The least that counting can take: letters of ASCII, words known by an unchecked hash, tables of fixed size.

   Counts words, and words within `window` words of one of the first `gendered` ones; a byte above 0x7f ends a
   word, and a zero byte a record. Returns how many pairs were counted. */
#include <stdint.h>
#include <stdlib.h>

enum { SLOTS = 1 << 22 };

typedef struct {
    uint64_t *keys;
    int32_t *ids;
    int32_t n;
} Table;

static int32_t number(Table *t, uint64_t hash) {
    uint64_t p = (hash ^ (hash >> 32)) & (SLOTS - 1);
    while (t->keys[p] && t->keys[p] != hash) p = (p + 1) & (SLOTS - 1);
    if (!t->keys[p]) {
        t->keys[p] = hash;
        t->ids[p] = t->n++;
    }
    return t->ids[p];
}

static int64_t words(Table *t, const uint8_t *text, int64_t size, int32_t *out) {
    int64_t n = 0, i = 0;
    while (i < size) {
        uint8_t c = text[i] | 32;
        if (text[i] == 0) out[n++] = -1;
        if (c < 'a' || c > 'z') {
            i++;
            continue;
        }
        uint64_t hash = 14695981039346656037ull;
        for (; i < size && (c = text[i] | 32) >= 'a' && c <= 'z'; i++) hash = (hash ^ c) * 1099511628211ull;
        out[n++] = number(t, hash);
    }
    return n;
}

int64_t scan(const uint8_t *text, int64_t size, const uint8_t *names, int64_t names_size, const uint8_t *stop,
             int64_t stop_size, int32_t window, int32_t most) {
    Table t = {calloc(SLOTS, sizeof(uint64_t)), calloc(SLOTS, sizeof(int32_t)), 0};
    int32_t *tokens = malloc((size / 2 + 1) * sizeof(int32_t));
    words(&t, names, names_size, tokens);
    int32_t gendered = t.n;
    words(&t, stop, stop_size, tokens);
    int32_t stopped = t.n;
    int64_t *count = calloc(most, sizeof(int64_t)), *near = calloc((int64_t)most * gendered, sizeof(int64_t));
    int64_t all = words(&t, text, size, tokens), n = 0, pairs = 0;
    for (int64_t i = 0; i < all; i++)
        if (tokens[i] < gendered || tokens[i] >= stopped) tokens[n++] = tokens[i];
    for (int64_t i = 0; i < n && t.n <= most; i++) {
        int32_t word = tokens[i];
        if (word < 0) continue;
        count[word]++;
        if (word >= gendered) continue;
        for (int64_t j = i - 1; j >= 0 && j >= i - window && tokens[j] >= 0; j--, pairs++)
            near[(int64_t)tokens[j] * gendered + word]++;
        for (int64_t j = i + 1; j < n && j <= i + window && tokens[j] >= 0; j++, pairs++)
            near[(int64_t)tokens[j] * gendered + word]++;
    }
    free(t.keys), free(t.ids), free(tokens), free(count), free(near);
    return t.n <= most ? pairs : -1;
}
