package kserve

import (
	"encoding/binary"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads the string at the cursor, which stands on its opening quote, and returns what is between the quotes.
// escaped tells whether unquote has to be applied.
func (c *cursor) text() (raw []byte, escaped bool, err error) {
	start := c.p + 1
	p, high := start, false
	for {
		p, high = plain(c.b, p, high)
		if p >= len(c.b) {
			c.p = start - 1
			return nil, false, c.bad(badQuote)
		}
		switch ch := c.b[p]; {
		case ch == '"':
			raw = c.b[start:p]
			if high && !utf8.Valid(raw) {
				c.p = start
				return nil, false, c.bad(badEncoding)
			}
			c.p = p + 1
			return raw, escaped, nil
		case ch == '\\':
			size, fault := escape(c.b[p:])
			if fault != "" {
				c.p = p
				return nil, false, c.bad(fault)
			}
			p, escaped = p+size, true
		default: // a control character
			c.p = p
			return nil, false, c.bad(badEncoding)
		}
	}
}

// plain returns the position of the first byte from p on that ends a string or needs a closer look, and whether a byte
// outside ASCII was passed (or had been, before).
func plain(b []byte, p int, high bool) (int, bool) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for p+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[p:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		stop := ((quote - ones) &^ quote) | ((slash - ones) &^ slash) | ((w - ones*' ') &^ w)
		if stop&tops != 0 {
			break
		}
		high = high || w&tops != 0
		p += 8
	}
	for ; p < len(b); p++ {
		ch := b[p]
		if ch == '"' || ch == '\\' || ch < ' ' {
			break
		}
		high = high || ch >= utf8.RuneSelf
	}
	return p, high
}

// escape returns the size of the escape sequence that b begins with, or what is wrong with it.
func escape(b []byte) (size int, fault string) {
	if len(b) < 2 {
		return 0, badQuote
	}
	if b[1] != 'u' {
		if unescape(b[1]) == 0 {
			return 0, badEscape
		}
		return 2, ""
	}
	first, ok := hex4(b)
	switch {
	case !ok:
		return 0, badHex
	case !utf16.IsSurrogate(first):
		return 6, ""
	}
	second, ok := hex4(b[6:])
	if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
		return 0, badSurrogate
	}
	return 12, ""
}

// hex4 reads \uXXXX at the start of b.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, ch := range b[2:6] {
		switch {
		case isDigit(ch):
			r = r<<4 | rune(ch-'0')
		case 'a' <= ch|0x20 && ch|0x20 <= 'f':
			r = r<<4 | rune(ch|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// unescape returns the byte that a backslash and ch stand for, 0 when they stand for none.
func unescape(ch byte) byte {
	switch ch {
	case '"', '\\', '/':
		return ch
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// unquote appends to dst what raw, as returned by cursor.text, stands for. The result is never longer than raw.
func unquote(dst, raw []byte) []byte {
	for p := 0; p < len(raw); {
		if raw[p] != '\\' {
			dst = append(dst, raw[p])
			p++
			continue
		}
		if raw[p+1] != 'u' {
			dst = append(dst, unescape(raw[p+1]))
			p += 2
			continue
		}
		r, _ := hex4(raw[p:])
		p += 6
		if utf16.IsSurrogate(r) {
			low, _ := hex4(raw[p:])
			r = utf16.DecodeRune(r, low)
			p += 6
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// appendText appends s, which is valid UTF-8, as a JSON string.
func appendText[T string | []byte](dst []byte, s T) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		ch := s[i]
		if ch >= ' ' && ch != '"' && ch != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch ch {
		case '"', '\\':
			dst = append(dst, '\\', ch)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[ch>>4], hexDigits[ch&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendName appends s as a JSON string after replacing what is not valid UTF-8. For names and messages, where a
// replaced byte is better than no answer.
func appendName(dst []byte, s string) []byte {
	if utf8.ValidString(s) {
		return appendText(dst, s)
	}
	return appendText(dst, string([]rune(s)))
}

// short returns text for a message: at most 40 bytes of it, quoted where it is not plain.
func short(text []byte) string {
	const most = 40
	tail := ""
	if len(text) > most {
		text, tail = text[:most], "..."
	}
	for _, ch := range text {
		if ch <= ' ' || ch > '~' {
			return strconv.Quote(string(text)) + tail
		}
	}
	return string(text) + tail
}
