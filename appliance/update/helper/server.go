// Package helper is the part of a box that has rights. The appliance itself is confined and may change nothing of the
// system; what needs more it asks of a small service of root's, over a socket that only the appliance's user may open.
// The helper trusts nothing that it is told: it installs what a key of the release has signed, and otherwise does a
// fixed set of things to this box alone. See docs/decisions/0029-privileged-update-helper.md.
package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/listen"
	"github.com/edgewise-ai/edgewise/appliance/update/driver"
)

// Config says where things are and who may ask.
type Config struct {
	Folder    string        // root's own: the staged and the previous package, and what became of them
	Keys      string        // folder with the public keys of releases, *.pub
	Data      string        // the appliance's data folder, which a reset empties
	Image     bool          // the machine is the box
	Downgrade string        // the file that opens the floor for versions; empty: DowngradeFile
	User      uint32        // who may ask, beside root
	Health    time.Duration // how long a new version may take to come up
	Steady    time.Duration // and how long it then has to stay up

	System driver.System // that driver extensions have to fit
	Mounts string        // where they are mounted; empty: driver.MountFolder

	// Run runs a program of the system and returns what it prints. nil: it is run.
	Run func(ctx context.Context, name string, arguments ...string) ([]byte, error)
	// Running tells whether systemd manages this machine. nil: it is looked for.
	Running func() bool
	Log     *slog.Logger
}

// How long things may take.
const (
	readTime    = 10 * time.Second // for a request to arrive
	defaultLive = 3 * time.Minute
	steadyTime  = 20 * time.Second
)

// maxConnections bounds the connections that are open at once: one is worked on, and the others wait for it.
const maxConnections = 16

// Server answers one request at a time.
type Server struct {
	config Config
	turn   sync.Mutex // held while a request is worked on
}

// New makes a Server and its folder. Errors: Internal.
func New(c Config) (*Server, error) {
	if c.Run == nil {
		c.Run = Run
	}
	if c.Running == nil {
		c.Running = func() bool {
			_, err := os.Stat("/run/systemd/system")
			return err == nil
		}
	}
	if c.Downgrade == "" {
		c.Downgrade = DowngradeFile
	}
	if c.Health == 0 {
		c.Health, c.Steady = defaultLive, steadyTime
	}
	if err := os.MkdirAll(c.Folder, 0o755); err != nil {
		return nil, edgewise.Errorf("helper.New", edgewise.Internal, "%w", err)
	}
	return &Server{config: c}, nil
}

// Serve answers until ctx ends, or until nobody has asked for a while, where linger is not 0. What is worked on is
// finished.
func (s *Server) Serve(ctx context.Context, unixListener *net.UnixListener, linger time.Duration) error {
	l := listen.New(unixListener, listen.Options{Max: maxConnections, Key: "connections to the helper", Log: s.config.Log})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	var work sync.WaitGroup
	defer work.Wait()
	timer := (*time.Timer)(nil)
	if linger > 0 {
		timer = time.AfterFunc(linger, func() {
			s.turn.Lock() // not in the middle of something
			defer s.turn.Unlock()
			stop()
		})
		defer timer.Stop()
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return edgewise.Errorf("helper.Serve", edgewise.Internal, "%w", err)
		}
		if timer != nil {
			timer.Reset(linger)
		}
		work.Go(func() {
			defer func() { _ = conn.Close() }()
			s.answer(conn.(*listen.Conn).Conn.(*net.UnixConn))
		})
	}
}

// answer works on one request. It goes on when the asker goes away: an installation ends the asker.
func (s *Server) answer(conn *net.UnixConn) {
	say := func(a Answer) {
		if text, err := json.Marshal(a); err == nil {
			_ = conn.SetWriteDeadline(time.Now().Add(readTime))
			_, _ = conn.Write(append(text, '\n'))
		}
	}
	uid, err := peer(conn)
	if err == nil && uid != 0 && uid != s.config.User {
		err = edgewise.Errorf("helper.answer", edgewise.Denied, "user %d may not ask the helper", uid)
	}
	var r Request
	var file *os.File
	if err == nil {
		r, file, err = receive(conn)
	}
	if file != nil {
		defer func() { _ = file.Close() }()
	}
	var a Answer
	if err == nil {
		s.turn.Lock()
		defer s.turn.Unlock()
		s.config.Log.Info("asked", "do", r.Do, "user", uid)
		a, err = s.do(context.Background(), r, file, func(text string) { say(Answer{Doing: text}) })
	}
	a.End = true
	if err != nil {
		s.config.Log.Warn("refused", "do", r.Do, "user", uid, "error", err)
		a.Kind, a.Error = edgewise.KindOf(err).String(), err.Error()
	}
	say(a)
}

// peer is the user at the other end.
func peer(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, edgewise.Errorf("helper.peer", edgewise.Internal, "%w", err)
	}
	var cred *unix.Ucred
	var asking error
	err = raw.Control(func(fd uintptr) { cred, asking = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asking); err != nil {
		return 0, edgewise.Errorf("helper.peer", edgewise.Internal, "%w", err)
	}
	return cred.Uid, nil
}

// receive reads a request, and the file that comes with it, which is the caller's to close, also with an error.
func receive(conn *net.UnixConn) (r Request, file *os.File, err error) {
	const op = "helper.receive"
	_ = conn.SetReadDeadline(time.Now().Add(readTime))
	text, rights := make([]byte, 0, MaxRequest), make([]byte, unix.CmsgSpace(4))
	for !bytes.ContainsRune(text, '\n') {
		if len(text) == cap(text) {
			return r, file, edgewise.Errorf(op, edgewise.TooLarge, "a request has at most %d bytes", MaxRequest)
		}
		n, nr, _, _, err := conn.ReadMsgUnix(text[len(text):cap(text)], rights)
		if err != nil || n == 0 {
			return r, file, edgewise.Errorf(op, edgewise.Invalid, "the request broke off")
		}
		text = text[:len(text)+n]
		if came := descriptor(rights[:nr]); came != nil {
			if file != nil {
				_ = came.Close()
				return r, file, edgewise.Errorf(op, edgewise.Invalid, "a request brings one file at most")
			}
			file = came
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, file, edgewise.Errorf(op, edgewise.Invalid, "the request cannot be read: %w", err)
	}
	return r, file, nil
}

// descriptor takes the file out of a control message, nil when there is none.
func descriptor(rights []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil
	}
	for _, extra := range fds[1:] {
		_ = unix.Close(extra)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "package")
}
