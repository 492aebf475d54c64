package perf

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// following stands behind every answer; reading one must leave it.
const following = "HTTP/1.1 299 next\r\n\r\n"

func TestAnswersAreReadToTheirEnd(t *testing.T) {
	for _, c := range []struct {
		name, text string
		status     int
		closing    bool
		reason     string
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, false, ""},
		{"length in another case", "HTTP/1.1 200 OK\r\ncOnTeNt-LeNgTh:5 \r\n\r\nhello", 200, false, ""},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, false, ""},
		{"bare newlines", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", 200, false, ""},
		{"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", 200, false, ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n", 200, false, ""},
		{"chunks with a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", 200, false, ""},
		{"continue first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", 200, false, ""},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, false, ""},
		{"closing", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", 200, true, ""},
		{"old and closing", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, true, ""},
		{"old and kept", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", 200, false, ""},
		{"refused", "HTTP/1.1 400 Bad Request\r\nContent-Length: 15\r\n\r\n{\"error\":\"bad\"}", 400, false, `{"error":"bad"}`},
		{"refused in chunks", "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nto\r\n2\r\no \r\n0\r\n\r\n", 503, false, "too "},
	} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{"at once": asIs, "byte by byte": iotest.OneByteReader} {
			r := answersOf(wrap(strings.NewReader(c.text + following)))
			a, err := r.read()
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, name, err)
				continue
			}
			if rest, _ := io.ReadAll(r.buffer); a.status != c.status || a.closing != c.closing || string(a.reason) != c.reason ||
				string(rest) != following {
				t.Errorf("%s, %s: status %d, closing %v, reason %q, rest %q", c.name, name, a.status, a.closing, a.reason, rest)
			}
		}
	}
}

func answersOf(from io.Reader) *answerReader {
	r := newAnswerReader(leastReadBuffer)
	r.reset(from)
	return r
}

func asIs(r io.Reader) io.Reader { return r }

func TestAnswerWithoutLengthEndsWithTheConnection(t *testing.T) {
	for text, reason := range map[string]string{"HTTP/1.1 200 OK\r\n\r\nall of it": "", "HTTP/1.1 500 Oops\r\n\r\nall of it": "all of it"} {
		a, err := answersOf(strings.NewReader(text)).read()
		if err != nil || !a.closing || string(a.reason) != reason {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

func TestOnlyTheBeginningOfAnErrorIsKept(t *testing.T) {
	for name, text := range map[string]string{
		"length": "HTTP/1.1 500 Oops\r\nContent-Length: 10000\r\n\r\n" + strings.Repeat("x", 10000),
		"chunks": "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("3e8\r\n"+strings.Repeat("x",
			1000)+"\r\n", 10) + "0\r\n\r\n",
		"close": "HTTP/1.1 500 Oops\r\n\r\n" + strings.Repeat("x", 10000),
	} {
		r := answersOf(strings.NewReader(text))
		a, err := r.read()
		if err != nil || len(a.reason) != maxReason {
			t.Errorf("%s: %v, %d bytes kept", name, err, len(a.reason))
		}
		if rest, _ := io.ReadAll(r.buffer); len(rest) > 0 {
			t.Errorf("%s: %d bytes unread", name, len(rest))
		}
	}
}

func TestWrongAnswersAreErrors(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct{ name, text, want string }{
		{"not HTTP", "SSH-2.0-OpenSSH_9.6\r\n", "malformed HTTP response"},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", "not an HTTP/1.x answer"},
		{"no status", "HTTP/1.1 abc OK\r\n\r\n", "malformed HTTP status code"},
		{"status too low", "HTTP/1.1 099 OK\r\n\r\n", "not an HTTP/1.x answer"},
		{"long head", head + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 70), "more than 65536 bytes"},
		{"no colon", head + "nonsense\r\n\r\n", "missing colon"},
		{"negative length", head + "Content-Length: -1\r\n\r\n", "bad Content-Length"},
		{"length too large", head + "Content-Length: 1073741825\r\n\r\n", "more than 1073741824 bytes"},
		{"length is no number", head + "Content-Length: x\r\n\r\n", "bad Content-Length"},
		{"unknown coding", head + "Transfer-Encoding: gzip\r\n\r\n", "unsupported transfer encoding"},
		{"chunk of no size", head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "invalid byte in chunk length"},
		{"chunk longer than told", head + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "malformed chunked encoding"},
		{"long trailer", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: "+strings.Repeat("y",
			1000)+"\r\n", 70), "suspiciously long trailer"},
		{"interim for ever", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", interimAnswers), "more than 8 interim answers"},
	} {
		_, err := answersOf(strings.NewReader(c.text)).read()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestAnswersThatAreCutOffAreErrors(t *testing.T) {
	for _, whole := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 400 No\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		for n := range len(whole) {
			if _, err := answersOf(strings.NewReader(whole[:n])).read(); err == nil {
				t.Errorf("%q: read as whole", whole[:n])
			}
		}
	}
}

func FuzzAnswersNeverPanic(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nto\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 500 \n\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := answersOf(strings.NewReader(string(data))).read()
		if err == nil && (a.status < 200 || len(a.reason) > maxReason) {
			t.Errorf("%q: %+v", data, a)
		}
	})
}

func TestReasonIsTheErrorMember(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"model not found"}`: "model not found", `{"other":1}`: `{"other":1}`, " <html> ": "<html>", "\xff": "?",
		"": "", "a\x1b[31m\nb": "a [31m b",
	} {
		if got := reasonOf([]byte(body)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}
