package kserve

import "bytes"

// The syntax errors of JSON, in Triton's words.
const (
	badEmpty        = "The document is empty."
	badTrailer      = "The document root must not be followed by other values."
	badValue        = "Invalid value."
	badMember       = "Missing a name for object member."
	badColon        = "Missing a colon after a name of object member."
	badObjectComma  = "Missing a comma or } after an object member."
	badArrayComma   = "Missing a comma or ] after an array element."
	badHex          = "Incorrect hex digit after \\u escape in string."
	badSurrogate    = "The surrogate pair in string is invalid."
	badEscape       = "Invalid escape character in string."
	badQuote        = "Missing a closing quotation mark in string."
	badEncoding     = "Invalid encoding in string."
	badFraction     = "Miss fraction part in number."
	badExponent     = "Miss exponent in number."
	parseErrorStart = "failed to parse the request JSON buffer: "
)

// cursor reads a JSON text from front to back. p is the next byte to read.
type cursor struct {
	b        []byte
	p        int
	depth    int
	maxDepth int
	key      []byte // where the name of a member goes when it holds escapes
}

func (c *cursor) bad(reason string) error {
	return invalid(parseErrorStart+"%s at %d", reason, c.p)
}

// next skips white space and returns the next byte without reading it, 0 at the end. A zero byte in the text is no
// valid JSON anywhere outside a string, so 0 is never mistaken.
func (c *cursor) next() byte {
	p := c.p
	for p < len(c.b) {
		if ch := c.b[p]; ch > ' ' || !isSpace(ch) {
			c.p = p
			return ch
		}
		p++
	}
	c.p = p
	return 0
}

func isSpace(ch byte) bool { return ch == ' ' || ch == '\n' || ch == '\t' || ch == '\r' }

// document checks that nothing but white space follows the value just read.
func (c *cursor) document() error {
	if c.next(); c.p < len(c.b) {
		return c.bad(badTrailer)
	}
	return nil
}

func (c *cursor) enter() error {
	if c.depth++; c.depth > c.maxDepth {
		return tooLarge(c.maxDepth, "JSON nesting depth exceeds maximum allowed limit (%d)", c.maxDepth)
	}
	c.p++
	return nil
}

// object reads an object and calls visit with the name of each member, the cursor standing before its value, which
// visit reads. name is valid until visit returns or reads a name itself.
func (c *cursor) object(visit func(name []byte) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	if c.next() == '}' {
		c.leave()
		return nil
	}
	for {
		if c.next() != '"' {
			return c.bad(badMember)
		}
		name, err := c.name()
		if err != nil {
			return err
		}
		if c.next() != ':' {
			return c.bad(badColon)
		}
		c.p++
		if err := visit(name); err != nil {
			return err
		}
		switch c.next() {
		case ',':
			c.p++
		case '}':
			c.leave()
			return nil
		default:
			return c.bad(badObjectComma)
		}
	}
}

// array reads an array and calls visit before each element, which visit reads.
func (c *cursor) array(visit func() error) error {
	if err := c.enter(); err != nil {
		return err
	}
	if c.next() == ']' {
		c.leave()
		return nil
	}
	for {
		if err := visit(); err != nil {
			return err
		}
		switch c.next() {
		case ',':
			c.p++
		case ']':
			c.leave()
			return nil
		default:
			return c.bad(badArrayComma)
		}
	}
}

func (c *cursor) leave() {
	c.p++
	c.depth--
}

func (c *cursor) name() ([]byte, error) {
	raw, escaped, err := c.text()
	if err != nil || !escaped {
		return raw, err
	}
	c.key = unquote(c.key[:0], raw)
	return c.key, nil
}

// skip reads any value and discards it. words tells whether NaN and the infinities count as numbers.
func (c *cursor) skip(words wordRule) error {
	switch ch := c.next(); {
	case ch == '{':
		return c.object(func([]byte) error { return c.skip(words) })
	case ch == '[':
		return c.array(func() error { return c.skip(words) })
	case ch == '"':
		_, _, err := c.text()
		return err
	case ch == '-' || isDigit(ch):
		if words == wordsAllowed && c.word("-Infinity") {
			return nil
		}
		_, err := c.number()
		return err
	case c.word("true"), c.word("false"), c.word("null"):
		return nil
	case words == wordsAllowed && (c.word("NaN") || c.word("Infinity")):
		return nil
	case c.p >= len(c.b) && c.depth == 0:
		return c.bad(badEmpty)
	}
	return c.bad(badValue)
}

type wordRule uint8

const (
	wordsRefused wordRule = iota
	wordsAllowed
)

// word reads w if it stands at the cursor.
func (c *cursor) word(w string) bool {
	if !bytes.HasPrefix(c.b[c.p:], []byte(w)) {
		return false
	}
	c.p += len(w)
	return true
}

// number reads a number and returns its text.
func (c *cursor) number() ([]byte, error) {
	_, _, end, form := scanDecimal(c.b, c.p)
	text := c.b[c.p:end]
	if form&malformed != 0 {
		c.p = end
		return nil, c.bad(numberFault(text))
	}
	c.p = end
	return text, nil
}

// numberFault returns the error of a number of which text could be read.
func numberFault(text []byte) string {
	if len(text) == 0 {
		return badValue
	}
	switch text[len(text)-1] {
	case '.':
		return badFraction
	case 'e', 'E', '+':
		return badExponent
	case '-':
		if len(text) > 1 {
			return badExponent
		}
	}
	return badValue
}

func isDigit(ch byte) bool { return ch-'0' <= 9 }

// bool reads true or false. ok is false, and nothing is read, when something else stands there.
func (c *cursor) bool() (value, ok bool) {
	c.next()
	switch {
	case c.word("true"):
		return true, true
	case c.word("false"):
		return false, true
	}
	return false, false
}

// unsigned reads an integer of at most 64 bits without sign. ok is false, with the cursor anywhere, when something else
// stands there.
func (c *cursor) unsigned() (value uint64, ok bool) {
	c.next()
	mant, _, end, form := scanDecimal(c.b, c.p)
	if form&(malformed|negative|fractional) != 0 {
		return 0, false
	}
	if form&cut != 0 {
		if mant, ok = parseUint(c.b[c.p:end]); !ok {
			return 0, false
		}
	}
	c.p = end
	return mant, true
}

// root is found at the beginning of a document, where the absence of a value means that the text is not JSON.
func (c *cursor) root() string {
	if f := c.found(); f != noValue {
		return f
	}
	return "not JSON"
}

// noValue is the result of found where no value begins.
const noValue = "no value"

// found names the kind of value at the cursor, for messages.
func (c *cursor) found() string {
	switch ch := c.next(); {
	case ch == '{':
		return "an object"
	case ch == '[':
		return "an array"
	case ch == '"':
		return "a string"
	case ch == 't' || ch == 'f':
		return "a bool"
	case ch == 'n':
		return "null"
	case ch == '-' || isDigit(ch):
		return "a number"
	}
	return noValue
}
