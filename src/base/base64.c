/* base64.c - bytes as text by RFC 4648, for schemas in footers and for positions.
 *
 * Tests: test_remembered_columns.c, test_parquet_write.c. */
#include "base/all.h"

void hr__text_add_base64(hr_text *out, const uint8_t *p, int64_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int64_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        char four[4] = { letters[v >> 18], letters[v >> 12 & 63], i + 1 < n ? letters[v >> 6 & 63] : '=',
                         i + 2 < n ? letters[v & 63] : '=' };

        hr__text_add_bytes(out, four, 4);
    }
}

int64_t hr__base64_read(const uint8_t *text, int64_t n_text, uint8_t *out)
{
    int64_t n = 0;
    uint32_t v = 0;
    int bits = 0;

    while (n_text > 0 && text[n_text - 1] == '=')
        n_text--;
    for (int64_t i = 0; i < n_text; i++) {
        uint8_t c = text[i];
        int d = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;

        if (d < 0)
            return -1;
        v = v << 6 | (uint32_t)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[n++] = (uint8_t)(v >> bits);
        }
    }
    return n;
}
