package perf

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// answer is the head of an HTTP/1.1 answer whose body has been read.
type answer struct {
	status  int
	length  int64 // of the body; -1: not told
	chunked bool
	closing bool   // the server closes the connection afterwards
	reason  []byte // the beginning of the body, unless the status is 200
}

// readAnswer reads one answer to its end. Bodies of status 200 are dropped unread by anybody. Errors: io.ErrUnexpectedEOF
// for an answer that is cut off, others for one that is not HTTP/1.x or over a bound.
func readAnswer(r *bufio.Reader) (*answer, error) {
	for range interimAnswers {
		a, err := readHead(r)
		if err != nil {
			return nil, cutOff(err)
		}
		if a.status/100 == 1 {
			continue
		}
		return a, cutOff(a.readBody(r))
	}
	return nil, fmt.Errorf("more than %d interim answers", interimAnswers)
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readHead(r *bufio.Reader) (*answer, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	a := &answer{length: -1}
	if a.status, err = parseStatus(line); err != nil {
		return nil, err
	}
	a.closing = line[7] == '0'
	for size := len(line); ; {
		if line, err = readLine(r); err != nil || len(line) == 0 {
			return a, err
		}
		if size += len(line) + 2; size > maxHeadBytes {
			return nil, fmt.Errorf("the answer's head has more than %d bytes", maxHeadBytes)
		}
		if err := a.field(line); err != nil {
			return nil, err
		}
	}
}

// parseStatus reads "HTTP/1.1 200 OK".
func parseStatus(line []byte) (int, error) {
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return 0, fmt.Errorf("not an HTTP/1.x answer: %.40q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil || status < 100 {
		return 0, fmt.Errorf("not an HTTP/1.x answer: %.40q", line)
	}
	return status, nil
}

// readLine returns the next line without its end. The bytes are valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("the answer has a line of more than %d bytes", r.Size())
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// field takes what matters of one header field.
func (a *answer) field(line []byte) (err error) {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return fmt.Errorf("the answer's head has a line without a colon: %.40q", line)
	}
	switch {
	case asciiFold(name, "content-length"):
		a.length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil || a.length < 0 || a.length > maxAnswerBytes {
			return fmt.Errorf("the answer's length %.40q: want 0 to %d", value, maxAnswerBytes)
		}
	case asciiFold(name, "transfer-encoding"):
		a.chunked = strings.EqualFold(string(bytes.TrimSpace(value)), "chunked")
		if !a.chunked {
			return fmt.Errorf("the answer's transfer encoding %.40q is not supported", value)
		}
	case asciiFold(name, "connection"):
		switch text := string(bytes.TrimSpace(value)); {
		case strings.EqualFold(text, "close"):
			a.closing = true
		case strings.EqualFold(text, "keep-alive"):
			a.closing = false
		}
	}
	return nil
}

func asciiFold(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

func (a *answer) readBody(r *bufio.Reader) error {
	switch {
	case a.status == 204 || a.status == 304:
		return nil
	case a.chunked:
		return a.readChunks(r)
	case a.length >= 0:
		return a.take(r, a.length)
	}
	a.closing = true
	if a.status != 200 {
		var err error
		if a.reason, err = io.ReadAll(io.LimitReader(r, maxReason)); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, maxAnswerBytes+1))
	if n > maxAnswerBytes {
		return fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
	}
	return err
}

// take reads n bytes of the body, and keeps the first ones of an error.
func (a *answer) take(r *bufio.Reader, n int64) error {
	if keep := min(n, maxReason-int64(len(a.reason))); a.status != 200 && keep > 0 {
		part := make([]byte, keep)
		if _, err := io.ReadFull(r, part); err != nil {
			return err
		}
		a.reason = append(a.reason, part...)
		n -= keep
	}
	_, err := r.Discard(int(n))
	return err
}

func (a *answer) readChunks(r *bufio.Reader) error {
	for total := int64(0); ; {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		size, err := parseChunkSize(line)
		if err != nil {
			return err
		}
		if size == 0 {
			return skipTrailer(r)
		}
		if total += size; total > maxAnswerBytes {
			return fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
		}
		if err := a.take(r, size); err != nil {
			return err
		}
		if end, err := readLine(r); err != nil || len(end) > 0 {
			return errors.Join(errors.New("a chunk of the answer is longer than it says"), err)
		}
	}
}

func parseChunkSize(line []byte) (int64, error) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 63)
	if err != nil || size > maxAnswerBytes {
		return 0, fmt.Errorf("the answer has a chunk of size %.40q: want 0 to %d in hexadecimal", line, maxAnswerBytes)
	}
	return int64(size), nil
}

func skipTrailer(r *bufio.Reader) error {
	for size := 0; ; {
		line, err := readLine(r)
		if err != nil || len(line) == 0 {
			return err
		}
		if size += len(line) + 2; size > maxHeadBytes {
			return fmt.Errorf("the answer's trailer has more than %d bytes", maxHeadBytes)
		}
	}
}

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	text   string
}

// Error returns the status and what the server said.
func (r *refusal) Error() string {
	return strings.TrimSpace(strconv.Itoa(r.status) + " " + r.text)
}

// reasonOf returns the error member of a JSON body, else the beginning of the body, on one line and fit for a terminal.
func reasonOf(body []byte) string {
	var b struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &b) == nil && b.Error != "" {
		return printable(b.Error)
	}
	return printable(string(body))
}

func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?")))
}
