// Package haproxy starts HAProxy with the configuration that is documented for replicas.
package haproxy

import (
	"encoding/csv"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/edgewise-ai/edgewise/test/journal"
)

// Box is where a replica listens.
type Box struct{ REST, GRPC string }

// Proxy is HAProxy while it runs.
type Proxy struct {
	REST, GRPC string // where clients reach it
	Process    *os.Process
	Log        journal.Journal

	statistics string // host:port
	ended      chan struct{}
}

// boxes is how many there are in the configuration.
const boxes = 3

// Start starts HAProxy in front of 1 to 3 boxes, with the configuration of a checkout but for the addresses; dir is for the file.
func Start(root, dir string, at ...Box) (*Proxy, error) {
	text, err := os.ReadFile(filepath.Join(root, "configs/proxy/haproxy.cfg"))
	if err != nil {
		return nil, err
	}
	p := &Proxy{ended: make(chan struct{})}
	listening, files, err := listen()
	if err != nil {
		return nil, err
	}
	p.REST, p.GRPC, p.statistics = listening[0], listening[1], listening[2]
	config, err := configuration(string(text), at)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("haproxy", "-db", "-f", path)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &p.Log, &p.Log, files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for who has started it
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("Debian's package haproxy is needed: %w", err)
	}
	p.Process = cmd.Process
	go func() {
		_ = cmd.Wait()
		for _, file := range files {
			_ = file.Close() // nobody accepts connections any more
		}
		close(p.ended)
	}()
	return p, nil
}

// listen opens the proxy's ports for it: a port that was free a moment ago may be taken.
func listen() (addresses []string, files []*os.File, err error) {
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			return nil, nil, err
		}
		addresses, files = append(addresses, l.Addr().String()), append(files, file)
		_ = l.Close()
	}
	return addresses, files, nil
}

// configuration puts boxes and the inherited ports into the text. Lines of boxes that there are not go.
func configuration(text string, at []Box) (string, error) {
	pairs := []string{"bind :8000", "bind fd@3", "bind :8001", "bind fd@4", "bind 127.0.0.1:8404", "bind fd@5"}
	for i := range boxes {
		rest, calls, name := fmt.Sprintf("192.0.2.%d:8000", i+1), fmt.Sprintf("192.0.2.%d:8001", i+1), fmt.Sprintf("server box%d ", i+1)
		if i < len(at) {
			pairs = append(pairs, rest, at[i].REST, calls, at[i].GRPC)
			continue
		}
		lines := strings.Split(text, "\n")
		text = strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, name) }), "\n")
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if strings.Contains(text, "192.0.2.") || strings.Count(text, "bind fd@") != 3 {
		return "", fmt.Errorf("configs/proxy/haproxy.cfg has other addresses than these: %q", pairs)
	}
	return text, nil
}

// Stop ends the proxy.
func (p *Proxy) Stop() {
	_ = p.Process.Kill()
	<-p.ended
}

// Sees tells whether the proxy has checked a box, from 0 on, and found it so: UP, NOLB, DOWN.
func (p *Proxy) Sees(box int, state string) (bool, error) {
	res, err := http.Get("http://" + p.statistics + "/;csv")
	if err != nil {
		return false, fmt.Errorf("the proxy does not answer: %w\n%s", err, p.Log.String())
	}
	defer func() { _ = res.Body.Close() }()
	rows, err := csv.NewReader(res.Body).ReadAll()
	if err != nil || len(rows) == 0 {
		return false, fmt.Errorf("the proxy's statistics have %d rows: %w", len(rows), err)
	}
	is, checked, name := slices.Index(rows[0], "status"), slices.Index(rows[0], "check_status"), fmt.Sprintf("box%d", box+1)
	return slices.ContainsFunc(rows, func(row []string) bool {
		return row[0] == "boxes" && row[1] == name && strings.HasPrefix(row[is], state) && row[checked] != "INI" &&
			!strings.HasPrefix(row[checked], "*")
	}), nil
}
