package remote

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// farewell is how long the program may take to end when its input has ended.
const farewell = 2 * time.Second

// maxMemory bounds the program's own memory, its code aside; it begins to save some at a quarter of that.
const maxMemory = 256 << 20

// systemFiles are what clients of the network read of the machine.
var systemFiles = []string{
	"/etc/resolv.conf", "/run/systemd/resolve", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/gai.conf",
	"/etc/host.conf", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates",
	"/usr/local/share/ca-certificates", "/etc/mime.types", "/usr/share/zoneinfo",
}

// fileVariables name files that the clients read.
var fileVariables = []string{
	"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CA_BUNDLE", "GOOGLE_APPLICATION_CREDENTIALS",
	"AZURE_FEDERATED_TOKEN_FILE", "SSL_CERT_FILE", "SSL_CERT_DIR", "DOCKER_CONFIG",
}

// access is what the program may use.
func (t *Tree) access() child.Access {
	a := child.Access{
		Environment: append([]string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, t.environment...),
		ReadPaths:   slices.Concat(systemFiles, t.reads), WritePaths: []string{t.folder}, Network: true,
	}
	for _, entry := range t.environment {
		name, value, _ := strings.Cut(entry, "=")
		for _, file := range fileVariables {
			if name == file && value != "" {
				a.ReadPaths = append(a.ReadPaths, value)
			}
		}
		if name == "HOME" && value != "" {
			a.ReadPaths = append(a.ReadPaths, value+"/.aws", value+"/.config/gcloud", value+"/.azure", value+"/.docker")
		}
	}
	return a
}

// running is a program that has been started.
type running struct {
	*child.Process
	*fetch.Client
	in, out *os.File // the ends of this process
}

// start starts the program.
func (t *Tree) start() (*running, error) {
	if _, err := os.Stat(t.program); err != nil {
		return nil, edgewise.Errorf("remote.Start", edgewise.Unsupported,
			"%s: the program that reads such repositories is not installed: it belongs at %s (\"make fetch\" builds it)",
			t.url, t.program)
	}
	if err := os.MkdirAll(t.folder, 0o700); err != nil {
		return nil, err
	}
	toRead, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = toRead.Close() }()
	out, toWrite, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer func() { _ = toWrite.Close() }()
	r := &running{Client: fetch.NewClient(in, out), in: in, out: out}
	c := child.Command{Access: t.access(), Input: toRead, Output: toWrite, Line: t.line, Unprotected: t.unprotected}
	limits := child.Limits{Memory: t.memory, AnyFileSize: true}
	release, err := c.Program([]string{t.program}, limits, child.Permission{Network: true})
	if err == nil {
		r.Process, err = child.Start(c)
		release()
	}
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	child.GiveWay(r.PID)
	return r, nil
}

// end ends the program.
func (r *running) end() {
	_ = r.in.Close()
	r.Await(farewell, "killed: it did not end when its input did")
	_ = r.out.Close()
	r.Drain()
}

// line logs what the program writes to its error output.
func (t *Tree) line(pid int, line []byte) {
	t.logger.Warn("edgewise-fetch: "+strings.ToValidUTF8(string(line), "?"), "pid", pid)
}

func (t *Tree) unprotected(lacking error) {
	if !t.said.Swap(true) {
		t.logger.Warn("programs that fetch models are confined less than they should be", "error", lacking)
	}
}

// run lets a program do a request. Errors are edgewise.Error, with the URL.
func (t *Tree) run(ctx context.Context, r *fetch.Request, each func(*fetch.Reply) error) error {
	select {
	case t.busy <- struct{}{}:
		defer func() { <-t.busy }()
	case <-ctx.Done():
		return edgewise.Errorf("remote.Run", edgewise.KindOf(ctx.Err()), "%s: %w", t.url, ctx.Err())
	}
	given, err := credentialsOf(t.credentials, t.url)
	if err != nil {
		return err
	}
	if given.Trust, err = trustOf(t.url, t.registry); err != nil {
		return err
	}
	r.URL, r.Credentials = t.url, given
	p, err := t.start()
	if err != nil {
		return edgewise.Errorf("remote.Run", edgewise.KindOf(err), "%w", err)
	}
	stop := context.AfterFunc(ctx, func() { p.Kill("killed: it was given up") })
	err = p.Do(r, each)
	stop()
	p.end()
	if err != nil && ctx.Err() != nil {
		return edgewise.Errorf("remote.Run", edgewise.KindOf(ctx.Err()), "%s: %w", t.url, ctx.Err())
	}
	return t.failure(err, p)
}

// kinds are what failures of the program are here.
var kinds = map[string]edgewise.Kind{
	fetch.Invalid: edgewise.Invalid, fetch.NotFound: edgewise.NotFound, fetch.Denied: edgewise.Denied,
	fetch.Unavailable: edgewise.Unavailable, fetch.Changed: edgewise.Unavailable, fetch.Corrupt: edgewise.Corrupt,
	fetch.Exhausted: edgewise.Exhausted, fetch.TooLarge: edgewise.TooLarge, fetch.Unsupported: edgewise.Unsupported,
}

// failure says where something failed, and what.
func (t *Tree) failure(err error, p *running) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fetch.Failure](err); ok {
		place := t.url
		if f.Object != "" {
			place = strings.TrimSuffix(place, "/") + "/" + f.Object
		}
		return edgewise.Errorf("remote.Run", kinds[f.Kind], "%s: %s: %s",
			place, strings.ReplaceAll(f.Kind, "_", " "), f.Message)
	}
	if own, ok := errors.AsType[*edgewise.Error](err); ok {
		return own
	}
	return edgewise.Errorf("remote.Run", edgewise.Unavailable, "%s: the program that fetches it has failed: %w (%s)",
		t.url, err, p.Cause())
}

// get fetches files.
func (t *Tree) get(ctx context.Context, entries []fetch.Entry) error {
	var failed []error
	r := &fetch.Request{Command: fetch.Get, Folder: t.folder, Files: entries, Reserve: t.reserve}
	err := t.run(ctx, r, func(reply *fetch.Reply) error {
		if f := reply.Failure; f != nil && len(failed) < maxReasons {
			failed = append(failed, f)
		}
		if f := reply.File; f != nil {
			t.mu.Lock()
			t.received += f.Received
			t.mu.Unlock()
		}
		return nil
	})
	if err != nil && len(failed) == 0 {
		return err
	}
	for i, f := range failed {
		failed[i] = t.failure(f, nil)
	}
	return errors.Join(failed...)
}

// maxReasons is how many files are named of which a request could not fetch.
const maxReasons = 4
