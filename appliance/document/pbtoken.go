package document

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is one word of protobuf text format.
type token struct {
	kind tokenKind
	text string // of a word or a number as written; of a string its value
	line int
	from int // where it begins among the bytes
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenNumber
	tokenString
	tokenPunctuation // text is the one character
)

// describe says what a token is, for "want ..., got ...".
func (t token) describe() string {
	switch t.kind {
	case tokenEnd:
		return "the end of the file"
	case tokenString:
		return "the text " + quote(t.text)
	}
	return quote(t.text)
}

// scanner cuts protobuf text format into tokens.
// Source: the protocol buffers text format language specification, "Lexical elements".
type scanner struct {
	*builder
	data string
	at   int
	line int
}

func (s *scanner) next() (token, error) {
	s.skip()
	t := token{line: s.line, from: s.at}
	if s.at == len(s.data) {
		return t, nil
	}
	switch c := s.data[s.at]; {
	case letter(c):
		t.kind, t.text = tokenWord, s.take(wordByte)
	case digit(c) || c == '.':
		return s.number()
	case c == '"' || c == '\'':
		var err error
		t.kind = tokenString
		t.text, err = s.quoted(c)
		return t, err
	case strings.IndexByte("{}<>[]:,;-", c) >= 0:
		t.kind, t.text = tokenPunctuation, s.data[s.at:s.at+1]
		s.at++
	default:
		r, _ := utf8.DecodeRuneInString(s.data[s.at:])
		return t, s.errorf(s.line, "unexpected character %q", r)
	}
	return t, nil
}

// skip passes over white space and comments.
func (s *scanner) skip() {
	for ; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\v', '\f':
		case '\n':
			s.line++
		case '#':
			end := strings.IndexByte(s.data[s.at:], '\n')
			if end < 0 {
				s.at = len(s.data)
				return
			}
			s.at += end - 1 // the newline is next
		default:
			return
		}
	}
}

func (s *scanner) take(allowed func(byte) bool) string {
	start := s.at
	for s.at < len(s.data) && allowed(s.data[s.at]) {
		s.at++
	}
	return s.data[start:s.at]
}

// number reads an unsigned decimal, octal, hexadecimal or floating-point literal; the float suffix is dropped.
func (s *scanner) number() (token, error) {
	start := s.at
	for s.at < len(s.data) {
		c := s.data[s.at]
		exponent := (c == '+' || c == '-') && s.at > start && (s.data[s.at-1]|0x20) == 'e' && !hexadecimal(s.data[start:s.at])
		if c != '.' && !wordByte(c) && !exponent {
			break
		}
		s.at++
	}
	text := s.data[start:s.at]
	if !hexadecimal(text) && len(text) > 1 {
		text = text[:len(text)-1] + strings.TrimRight(text[len(text)-1:], "fF")
	}
	if !validNumber(text) {
		return token{}, s.errorf(s.line, "%s is not a number", quote(s.data[start:s.at]))
	}
	return token{kind: tokenNumber, text: text, line: s.line, from: start}, nil
}

func validNumber(text string) bool {
	if strings.Contains(text, "_") {
		return false
	}
	if hexadecimal(text) {
		return len(text) > 2 && strings.Trim(text[2:], "0123456789abcdefABCDEF") == ""
	}
	if strings.Trim(text, "0123456789") == "" {
		return len(text) == 1 || text[0] != '0' || strings.Trim(text, "01234567") == ""
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || strings.Contains(err.Error(), strconv.ErrRange.Error())
}

func hexadecimal(text string) bool {
	return len(text) >= 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')
}

func letter(c byte) bool   { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
func digit(c byte) bool    { return '0' <= c && c <= '9' }
func wordByte(c byte) bool { return letter(c) || digit(c) }

// quoted reads a string literal, resolves its escapes and checks that the value is text.
func (s *scanner) quoted(mark byte) (string, error) {
	var value []byte
	for s.at++; s.at < len(s.data); {
		c := s.data[s.at]
		switch c {
		case mark:
			s.at++
			if !utf8.Valid(value) {
				return "", s.errorf(s.line, "string %s is not valid UTF-8", quote(string(value)))
			}
			return string(value), nil
		case '\n':
			return "", s.errorf(s.line, "string ends at the end of the line: want %q, or \\n for a line break", mark)
		case '\\':
			var err error
			if value, err = s.escape(value); err != nil {
				return "", err
			}
		default:
			value = append(value, c)
			s.at++
		}
	}
	return "", s.errorf(s.line, "string is not closed: want %q", mark)
}

// escape appends what the escape at s.at stands for. Octal and \x escapes are bytes, \u and \U are code points.
func (s *scanner) escape(value []byte) ([]byte, error) {
	s.at++
	if s.at == len(s.data) {
		return nil, s.errorf(s.line, "string is not closed")
	}
	c := s.data[s.at]
	s.at++
	if i := strings.IndexByte(`abfnrtv?'"\`, c); i >= 0 {
		return append(value, "\a\b\f\n\r\t\v?'\"\\"[i]), nil
	}
	switch {
	case '0' <= c && c <= '7':
		s.at--
		n, err := s.digits(8, 1, 3)
		if err == nil && n > 255 {
			err = s.errorf(s.line, "octal escape is above \\377")
		}
		return append(value, byte(n)), err
	case c == 'x' || c == 'X':
		n, err := s.digits(16, 1, 2)
		return append(value, byte(n)), err
	case c == 'u' || c == 'U':
		width := map[byte]int{'u': 4, 'U': 8}[c]
		n, err := s.digits(16, width, width)
		if err == nil && (n > utf8.MaxRune || !utf8.ValidRune(rune(n))) {
			err = s.errorf(s.line, "escape \\%c%0*x is not a code point", c, width, n)
		}
		return utf8.AppendRune(value, rune(n)), err
	}
	return nil, s.errorf(s.line, "unknown escape \\%c", c)
}

// digits reads from least to most digits in a base of 8 or 16.
func (s *scanner) digits(base, least, most int) (uint64, error) {
	start := s.at
	for s.at < len(s.data) && s.at < start+most {
		if _, err := strconv.ParseUint(s.data[s.at:s.at+1], base, 8); err != nil {
			break
		}
		s.at++
	}
	if s.at < start+least {
		return 0, s.errorf(s.line, "escape has too few digits: want %d in base %d", least, base)
	}
	n, _ := strconv.ParseUint(s.data[start:s.at], base, 64)
	return n, nil
}
