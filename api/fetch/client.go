package fetch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Client is the appliance's half of a connection. It is for one goroutine.
type Client struct {
	out io.Writer
	in  *bufio.Scanner
}

// NewClient makes the half that writes requests to out and reads replies from in.
func NewClient(out io.Writer, in io.Reader) *Client { return &Client{out, lines(in)} }

// lines reads lines of at most MaxLine bytes.
func lines(in io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 64<<10), MaxLine)
	return s
}

// ErrProtocol says that the other half does not keep to the protocol.
var ErrProtocol = errors.New("it does not keep to the protocol")

// Do sends a request and gives each reply to each until the request is done. Failures that name an object are given to
// each. Errors: a *Failure of the request as a whole, io.ErrUnexpectedEOF when the program has ended, ErrProtocol, and
// what each returns, which ends nothing: the caller ends the program then.
func (c *Client) Do(r *Request, each func(*Reply) error) error {
	r.Version = Version
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(line) >= MaxLine || len(r.Files) > MaxPage {
		return Failf(TooLarge, "a request of %d bytes and %d files: want at most %d and %d", len(line), len(r.Files), MaxLine, MaxPage)
	}
	if _, err := c.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	var failed *Failure
	for c.in.Scan() {
		var reply Reply
		if err := json.Unmarshal(c.in.Bytes(), &reply); err != nil || len(reply.Entries) > MaxPage {
			return fmt.Errorf("%w: %.100q", ErrProtocol, c.in.Text())
		}
		switch {
		case reply.Version != 0:
			return fmt.Errorf("%w: it has version %d, want %d", ErrProtocol, reply.Version, Version)
		case reply.Failure != nil && reply.Failure.Object == "" && failed == nil:
			failed = reply.Failure
		default:
			if err := each(&reply); err != nil {
				return err
			}
		}
		switch {
		case reply.Done && failed != nil:
			return failed
		case reply.Done:
			return nil
		}
	}
	if errors.Is(c.in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, MaxLine)
	}
	return io.ErrUnexpectedEOF
}

// Program returns where edgewise-fetch is: in lib beside this program.
func Program() string {
	own, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(own), "lib", "edgewise-fetch")
}
