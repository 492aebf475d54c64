package helper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Socket is where the helper listens.
const Socket = "/run/edgewise-helper.sock"

// maxAnswer bounds a line of an answer: JSON writes a byte of a log in six at most, and there is little beside that.
const maxAnswer = 6*MaxLog + 64<<10

// Client asks the helper at a socket. The zero value asks the one of this machine.
type Client struct {
	Path string
}

func (c Client) path() string {
	if c.Path == "" {
		return Socket
	}
	return c.Path
}

// Present tells whether there is a helper.
func (c Client) Present() bool {
	info, err := os.Stat(c.path())
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// Ask asks for one thing and waits for its end, or that of ctx; what was begun goes on. file, which may be nil, is
// handed over and stays the caller's. doing, which may be nil, is told how far it is. Errors: Unavailable without a
// helper, and the helper's own.
func (c Client) Ask(ctx context.Context, r Request, file *os.File, doing func(string)) (Answer, error) {
	const op = "helper.Ask"
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path())
	if err != nil {
		return Answer{}, edgewise.Errorf(op, edgewise.Unavailable, "the helper of this box does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	text, err := json.Marshal(r)
	if err != nil {
		return Answer{}, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix(append(text, '\n'), rights, nil)
	if err != nil && !errors.Is(err, unix.EPIPE) { // who is refused is told so before having asked
		return Answer{}, c.broken(ctx, err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		var a Answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return Answer{}, edgewise.Errorf(op, edgewise.Internal, "the helper's answer cannot be read: %w", err)
		}
		switch {
		case !a.End && doing != nil:
			doing(a.Doing)
		case a.End && a.Error != "":
			return a, edgewise.Errorf(op, a.kindOf(), "%s", a.Error)
		case a.End:
			return a, nil
		}
	}
	return Answer{}, c.broken(ctx, lines.Err())
}

func (c Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return edgewise.Errorf("helper.Ask", edgewise.KindOf(ctx.Err()), "no longer waiting for the helper: %w", ctx.Err())
	}
	if err == nil {
		return edgewise.Errorf("helper.Ask", edgewise.Unavailable, "the helper ended without an answer")
	}
	return edgewise.Errorf("helper.Ask", edgewise.Unavailable, "asking the helper: %w", err)
}
