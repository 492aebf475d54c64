package helper

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/test/fakesystem"
)

// running is a helper on a machine that does not exist.
type running struct {
	t      *testing.T
	client Client
	system *fakesystem.System
	sign   func([]byte) string
	config Config
}

func begin(t *testing.T, change func(*Config)) *running {
	t.Helper()
	dir := t.TempDir()
	r := &running{t: t, system: fakesystem.New("1.0.0")}
	r.config = Config{
		Folder: filepath.Join(dir, "state"), Keys: filepath.Join(dir, "keys"), Data: filepath.Join(dir, "data"),
		User:      uint32(os.Getuid()),
		Downgrade: filepath.Join(dir, "older"), Health: 300 * time.Millisecond, Steady: 10 * time.Millisecond,
		Run: r.system.Run, Running: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	}
	for _, folder := range []string{r.config.Keys, r.config.Data} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.sign = fakesystem.Key(t, r.config.Keys)
	if change != nil {
		change(&r.config)
	}
	s, err := New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "helper") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	r.client = Client{filepath.Join(sockets, "socket")}
	fakesystem.Serve(t, r.client.Path, s.Serve)
	return r
}

func (r *running) ask(do string) (Answer, error) {
	return r.client.Ask(r.t.Context(), Request{Do: do}, nil, nil)
}

func (r *running) stage(content []byte, signature string) (Answer, error) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "sent.deb")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		r.t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	return r.client.Ask(r.t.Context(), Request{Do: DoStage, Signature: signature}, f, nil)
}

func (r *running) install(p fakesystem.Package) error {
	r.t.Helper()
	if _, err := r.stage(p.Bytes(), r.sign(p.Bytes())); err != nil {
		r.t.Fatal(err)
	}
	_, err := r.ask(DoApply)
	return err
}

func (r *running) state() State {
	r.t.Helper()
	a, err := r.ask(DoState)
	if err != nil {
		r.t.Fatal(err)
	}
	return *a.State
}

func want(t *testing.T, err error, kind edgewise.Kind, text string) {
	t.Helper()
	if err == nil || edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %v with %q", err, kind, text)
	}
}

func TestASignedPackageIsInstalledAndTakenBack(t *testing.T) {
	r := begin(t, nil)
	p := fakesystem.Edgewise("1.1.0")
	a, err := r.stage(p.Bytes(), r.sign(p.Bytes()))
	if err != nil || a.State.Staged == nil || *a.State.Staged != (Staged{"1.1.0", false}) || a.State.Installed != "1.0.0" {
		t.Fatalf("staged %+v, %v", a.State, err)
	}
	if r.system.Installed() != "1.0.0" {
		t.Fatal("staging installs")
	}
	var said []string
	if _, err := r.client.Ask(t.Context(), Request{Do: DoApply}, nil,
		func(text string) { said = append(said, text) }); err != nil {
		t.Fatal(err)
	}
	st := r.state()
	if r.system.Installed() != "1.1.0" || st.Previous != "1.0.0" || st.Staged != nil || st.Last.Error != "" ||
		st.Last.Version != "1.1.0" || len(said) != 3 {
		t.Errorf("after: %+v, said %q", st, said)
	}
	for _, version := range []string{"1.0.0", "1.1.0"} { // back, and back from that
		if _, err := r.ask(DoRollback); err != nil {
			t.Fatal(err)
		}
		if st := r.state(); r.system.Installed() != version || st.Last.Action != DoRollback || st.Previous == version {
			t.Errorf("after a rollback: %+v", st)
		}
	}
}

func TestPackagesThatAreRefused(t *testing.T) {
	r := begin(t, nil)
	stranger := fakesystem.Key(t, "")
	good := fakesystem.Edgewise("1.1.0").Bytes()
	other, arch := fakesystem.Edgewise("1.1.0"), fakesystem.Edgewise("1.1.0")
	other.Name, arch.Arch = "openssh-server", "riscv64"
	tests := []struct {
		name      string
		content   []byte
		signature string
		kind      edgewise.Kind
		text      string
	}{
		{"no signature", good, "", edgewise.Denied, "send the file .minisig"},
		{"a stranger's", good, stranger(good), edgewise.Denied, "which this box does not know"},
		{"of another package", good, r.sign(other.Bytes()), edgewise.Denied, "changed or cut off"},
		{"cut off", good[:len(good)-1], r.sign(good), edgewise.Denied, "changed or cut off"},
		{"a huge signature", good, strings.Repeat("x", update.MaxSignature+1), edgewise.Denied, "send the file .minisig"},
		{
			"signed, and another program", other.Bytes(), r.sign(other.Bytes()), edgewise.Invalid,
			`the package is "openssh-server"`,
		},
		{
			"signed, and for another machine", arch.Bytes(), r.sign(arch.Bytes()), edgewise.Invalid,
			"the package is for riscv64",
		},
		{"signed, and no package", []byte("SHA256SUMS"), r.sign([]byte("SHA256SUMS")), edgewise.Invalid, "no Debian package"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.stage(tt.content, tt.signature)
			want(t, err, tt.kind, tt.text)
			if st := r.state(); st.Staged != nil {
				t.Errorf("staged all the same: %+v", st)
			}
			if _, err := os.Stat(filepath.Join(r.config.Folder, stagedFile)); err == nil {
				t.Error("its file is kept")
			}
		})
	}
	_, err := r.ask(DoApply)
	want(t, err, edgewise.Conflict, "no package waits")
	if r.system.Ran("dpkg") {
		t.Error("something was installed")
	}
}

func TestAPackageThatIsExchangedBehindItsCheck(t *testing.T) {
	r := begin(t, nil)
	path := filepath.Join(t.TempDir(), "sent.deb")
	good := fakesystem.Edgewise("1.1.0").Bytes()
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := r.client.Ask(t.Context(), Request{Do: DoStage, Signature: r.sign(good)}, f, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(fakesystem.Edgewise("6.6.6").Bytes(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ask(DoApply); err != nil || r.system.Installed() != "1.1.0" {
		t.Errorf("installed %s, %v", r.system.Installed(), err)
	}
}

func TestAVersionThatDoesNotComeUpIsTakenBack(t *testing.T) {
	tests := []struct {
		name string
		bad  func(*fakesystem.Package)
		text string
	}{
		{"dpkg refuses it", func(p *fakesystem.Package) { p.Fails = true }, "dependency problems"},
		{"it does not stay up", func(p *fakesystem.Package) { p.Dies = true }, "does not come up and stay up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := begin(t, nil)
			p := fakesystem.Edgewise("1.1.0")
			tt.bad(&p)
			if err := r.install(p); err == nil {
				t.Error("it is installed")
			}
			st := r.state()
			if r.system.Installed() != "1.0.0" || st.Last == nil || !strings.Contains(st.Last.Error, tt.text) ||
				!strings.Contains(st.Last.Error, "the version before it is back") || st.Last.Log == "" || st.Previous != "" {
				t.Errorf("installed %s, %+v", r.system.Installed(), st.Last)
			}
		})
	}
}

func TestWhatCannotBeDone(t *testing.T) {
	r := begin(t, nil)
	_, err := r.ask(DoRollback)
	want(t, err, edgewise.Conflict, "no version to go back to")
	_, err = r.ask("make coffee")
	want(t, err, edgewise.Invalid, "make coffee")
	_, err = r.ask(DoStage)
	want(t, err, edgewise.Invalid, "no package came")
	_, err = r.ask(DoOlder)
	want(t, err, edgewise.Unsupported, "flashed")
	_, err = r.client.Ask(t.Context(), Request{Do: DoState, Since: strings.Repeat("x", MaxRequest)}, nil, nil)
	want(t, err, edgewise.TooLarge, "at most 65536 bytes")
	_, err = Client{filepath.Join(t.TempDir(), "none")}.Ask(t.Context(), Request{Do: DoState}, nil, nil)
	want(t, err, edgewise.Unavailable, "does not answer")
	if err := os.RemoveAll(r.config.Keys); err != nil {
		t.Fatal(err)
	}
	_, err = r.stage(fakesystem.Edgewise("2").Bytes(), "")
	want(t, err, edgewise.Unsupported, "made without the key of a release")
}

func TestNobodyElseMayAsk(t *testing.T) {
	if own := uint32(os.Getuid()); own != 0 {
		r := begin(t, func(c *Config) { c.User = own + 1 })
		_, err := r.ask(DoState)
		want(t, err, edgewise.Denied, "may not ask the helper")
		return
	}
	r := begin(t, func(c *Config) { c.User = 65533 })
	// the file's mode is one lock, this is the other
	for _, path := range []string{filepath.Dir(r.client.Path), r.client.Path} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(user string) string {
		out, _ := exec.Command("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "/usr/bin/python3", "-c",
			"import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ntry: "+
				"s.send(b'{\"do\":\"state\"}\\n')\nexcept BrokenPipeError: pass\nprint(s.recv(4096).decode())",
			r.client.Path).CombinedOutput()
		return string(out)
	}
	if got := ask("65532"); !strings.Contains(got, "user 65532 may not ask the helper") {
		t.Errorf("another user is answered: %s", got)
	}
	if got := ask("65533"); !strings.Contains(got, `"installed":"1.0.0"`) {
		t.Errorf("the appliance's user is not: %s", got)
	}
}

func TestTheMachineIsRestartedAndErased(t *testing.T) {
	for _, tt := range []struct {
		name, do string
		image    bool
		command  string
	}{
		{"restart of an image", DoRestart, true, "systemd-run --quiet --collect --on-active=1s systemctl reboot"},
		{"restart of a package", DoRestart, false, "systemd-run --quiet --collect --on-active=1s systemctl restart " +
			"edgewise.service"},
		{"reset of an image", DoReset, true, "grub-editenv /efi/EFI/debian/grubenv set FACTORY=1"},
		{"reset of a package", DoReset, false, "systemctl start edgewise.service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := begin(t, func(c *Config) { c.Image = tt.image })
			secret := filepath.Join(r.config.Data, "models", "cat")
			if err := os.MkdirAll(secret, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := r.ask(tt.do); err != nil || !r.system.Ran(tt.command) {
				t.Errorf("ran %q, %v", r.system.Commands(), err)
			}
			_, err := os.Stat(secret)
			if gone := err != nil; gone != (tt.do == DoReset && !tt.image) {
				t.Errorf("the data are gone: %v", gone)
			}
		})
	}
}

func TestTheFloorIsOpened(t *testing.T) {
	r := begin(t, func(c *Config) { c.Image = true })
	for _, tt := range []struct {
		do   string
		open bool
	}{{DoOlder, true}, {DoNoOlder, false}, {DoNoOlder, false}} {
		_, err := r.ask(tt.do)
		_, stat := os.Stat(r.config.Downgrade)
		if err != nil || (stat == nil) != tt.open {
			t.Errorf("%s: %v, %v", tt.do, err, stat)
		}
	}
	_, err := r.ask(DoApply)
	want(t, err, edgewise.Unsupported, "with bundles")
}

func TestTheLogOfFailedStarts(t *testing.T) {
	r := begin(t, func(c *Config) { c.Image = true })
	r.system.Journal(
		`[{"index":-5,"boot_id":"a1"},{"index":-4,"boot_id":"b2"},{"index":-3,"boot_id":"c3"},{"index":-2,"boot_id":"d4"},`+
			`{"index":-1,"boot_id":"e5"},{"index":0,"boot_id":"f6"}]`, map[string]string{
			"b2": "far away", "c3": "first try",
			"d4": "second try", "e5": strings.Repeat("a long line\n", MaxLog/4) + "third try", "f6": "now",
		})
	a, err := r.client.Ask(t.Context(), Request{Do: DoFailures, Since: "a1"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, there := range map[string]bool{
		"first try": true, "second try": true, "third try": true, "far away": false,
		"now": false,
	} {
		if strings.Contains(a.Log, text) != there {
			t.Errorf("%q in the log: want %v", text, there)
		}
	}
	if len(a.Log) > MaxLog {
		t.Errorf("the log has %d bytes", len(a.Log))
	}
}

// TestALogOfSignsIsRead has logs of what JSON writes in six bytes each.
func TestALogOfSignsIsRead(t *testing.T) {
	r := begin(t, func(c *Config) { c.Image = true })
	signs := strings.Repeat("\x1b[31m<&>\x1b[0m\n", MaxLog/8)
	r.system.Journal(
		`[{"index":-3,"boot_id":"a1"},{"index":-2,"boot_id":"b2"},{"index":-1,"boot_id":"c3"},{"index":0,"boot_id":"d4"}]`,
		map[string]string{"a1": signs, "b2": signs, "c3": signs})
	a, err := r.client.Ask(t.Context(), Request{Do: DoFailures}, nil, nil)
	if err != nil || len(a.Log) < MaxLog/4 {
		t.Errorf("%d bytes of log, %v", len(a.Log), err)
	}
}

// TestFilesThatNobodyWantsAreClosed sends requests with more than one file, and requests that are none with one.
func TestFilesThatNobodyWantsAreClosed(t *testing.T) {
	r := begin(t, nil)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	send := func(pieces ...string) string {
		c, err := net.Dial("unix", r.client.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for _, piece := range pieces {
			if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte(piece), unix.UnixRights(int(f.Fd())), nil); err != nil &&
				!errors.Is(err, unix.EPIPE) {
				t.Fatal(err)
			}
		}
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	before := open()
	for range 20 {
		if got := send(`{"do":`, `"state"`, "}\n"); !strings.Contains(got, "one file at most") {
			t.Fatalf("several files: %s", got)
		}
		if got := send("no request\n"); !strings.Contains(got, "cannot be read") {
			t.Fatalf("no request: %s", got)
		}
	}
	for end := time.Now().Add(20 * time.Second); open() > before+5; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are open, %d before", open(), before)
		}
	}
}
