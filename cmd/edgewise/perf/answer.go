package perf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

// answerReader reads the responses of one connection, each within bounds.
type answerReader struct {
	bound  io.LimitedReader // of what may still be read from the connection
	buffer *bufio.Reader
}

func newAnswerReader(size int) *answerReader {
	r := &answerReader{}
	r.buffer = bufio.NewReaderSize(&r.bound, size)
	return r
}

// reset makes the reader read from another connection.
func (r *answerReader) reset(from io.Reader) {
	r.bound = io.LimitedReader{R: from, N: maxHeadBytes}
	r.buffer.Reset(&r.bound)
}

// answer is a response whose body has been read to its end.
type answer struct {
	status  int
	closing bool   // the server closes the connection afterwards
	reason  []byte // the beginning of the body, unless the status is 200
}

// read reads one response. It fails for a response that is cut off, not HTTP/1.x or over a bound.
func (r *answerReader) read() (*answer, error) {
	for range interimAnswers {
		r.bound.N = maxHeadBytes
		response, err := http.ReadResponse(r.buffer, nil)
		switch {
		case err != nil && r.bound.N <= 0:
			return nil, fmt.Errorf("the answer's head has more than %d bytes", maxHeadBytes)
		case err != nil:
			return nil, err
		case response.ProtoMajor != 1 || response.StatusCode < 100:
			return nil, fmt.Errorf("not an HTTP/1.x answer: %.40q", response.Proto+" "+response.Status)
		case response.StatusCode/100 == 1:
			continue
		}
		return r.readBody(response)
	}
	return nil, fmt.Errorf("more than %d interim answers", interimAnswers)
}

func (r *answerReader) readBody(response *http.Response) (*answer, error) {
	a := &answer{status: response.StatusCode, closing: response.Close}
	tooLong := fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
	if response.ContentLength > maxAnswerBytes {
		return nil, tooLong
	}
	r.bound.N = maxAnswerBytes
	var err error
	if a.status != http.StatusOK {
		a.reason, err = io.ReadAll(io.LimitReader(response.Body, maxReason))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	if r.bound.N <= 0 {
		return nil, tooLong
	}
	return a, err
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
