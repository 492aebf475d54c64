package wat

import (
	"fmt"
	"strconv"
	"strings"
)

// node is an atom, a string or a list.
type node struct {
	atom string
	text []byte // of a string
	list []node
	kind kind
	line int
}

type kind uint8

const (
	atom kind = iota
	str
	list
)

// head returns the first atom of a list, "" when there is none.
func (n node) head() string {
	if n.kind != list || len(n.list) == 0 || n.list[0].kind != atom {
		return ""
	}
	return n.list[0].atom
}

// lexer reads nodes.
type lexer struct {
	text string
	at   int
	line int
}

// nodes reads up to the closing parenthesis of the list that was opened in line open; 0: up to the end.
func (l *lexer) nodes(open int) ([]node, error) {
	var all []node
	for {
		l.space()
		if l.at == len(l.text) {
			if open != 0 {
				return nil, fmt.Errorf("line %d: this list is not closed", open)
			}
			return all, nil
		}
		n := node{line: l.line}
		var err error
		switch c := l.text[l.at]; c {
		case ')':
			if open == 0 {
				return nil, fmt.Errorf("line %d: unexpected )", l.line)
			}
			l.at++
			return all, nil
		case '(':
			l.at++
			n.kind = list
			n.list, err = l.nodes(l.line)
		case '"':
			n.kind = str
			n.text, err = l.str()
		default:
			n.atom = l.word()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
}

// space skips blanks, line comments and block comments.
func (l *lexer) space() {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case rest[0] == '\n':
			l.line++
			l.at++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.at++
		case strings.HasPrefix(rest, ";;"):
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				l.at += end
			} else {
				l.at = len(l.text)
			}
		case strings.HasPrefix(rest, "(;"):
			end := strings.Index(rest, ";)")
			if end < 0 {
				end = len(rest) - 2
			}
			l.line += strings.Count(rest[:end], "\n")
			l.at += end + 2
		default:
			return
		}
	}
}

func (l *lexer) word() string {
	start := l.at
	for l.at < len(l.text) && !strings.ContainsRune(" \t\r\n()\";", rune(l.text[l.at])) {
		l.at++
	}
	if l.at == start {
		l.at++
	}
	return l.text[start:l.at]
}

// str reads a string: bytes, with \t \n \r \" \' \\ and \hh.
func (l *lexer) str() ([]byte, error) {
	text := []byte{}
	for l.at++; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		switch {
		case c == '"':
			l.at++
			return text, nil
		case c != '\\':
			text = append(text, c)
			continue
		}
		l.at++
		if l.at+1 >= len(l.text) {
			break
		}
		if i := strings.IndexByte(`tnr"'\`, l.text[l.at]); i >= 0 {
			text = append(text, "\t\n\r\"'\\"[i])
			continue
		}
		b, err := strconv.ParseUint(l.text[l.at:l.at+2], 16, 8)
		if err != nil {
			return nil, fmt.Errorf("line %d: bad escape in a string", l.line)
		}
		text = append(text, byte(b))
		l.at++
	}
	return nil, fmt.Errorf("line %d: this string is not closed", l.line)
}
