package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/cli"
)

// Triton are the flags of Triton's own command line as they were given: each stands for keys of the configuration.
type Triton struct {
	values map[string]string   // of the configuration, by key
	lists  map[string][]string // of those values that are lists, by key
	given  map[string]string   // the last text of each flag
	Notes  []Note              // flags that have no effect here, or another one than their text says
}

// Note is a line of the log about a flag that is accepted.
type Note struct{ Message, Flag, Reason string }

const (
	noEffect   = "a flag of Triton's has no effect here"
	readInPart = "a flag of Triton's is read in part"
)

// tritonFlag is one flag of Triton's.
type tritonFlag struct {
	name  string
	yes   bool                               // true or false; alone it means true
	apply func(t *Triton, text string) error // the configuration that it stands for
}

// pflagValue makes a flag of Triton's one of the command line's.
type pflagValue struct {
	flag tritonFlag
	all  *Triton
}

// String returns the default.
func (*pflagValue) String() string { return "" }

// Type names the values in the help text.
func (v *pflagValue) Type() string {
	if v.flag.yes {
		return "bool"
	}
	return "value"
}

// Set adds a value of the flag, which may be repeated.
func (v *pflagValue) Set(text string) error {
	v.all.given[v.flag.name] = text
	if v.flag.yes {
		truth, err := truthOf(text)
		if err != nil {
			return err
		}
		text = strconv.FormatBool(truth)
	}
	return v.flag.apply(v.all, text)
}

// truthOf reads a truth value as Triton does.
func truthOf(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "on", "1":
		return true, nil
	case "false", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("want true or false, got %.40q", text)
}

// Register adds Triton's flags to a command.
func (t *Triton) Register(cmd *cobra.Command) {
	t.values, t.lists, t.given = map[string]string{}, map[string][]string{}, map[string]string{}
	for _, f := range tritonTable() {
		flag := cmd.Flags().VarPF(&pflagValue{f, t}, f.name, "", "as Triton's")
		flag.Hidden = true
		if f.yes {
			flag.NoOptDefVal = "true"
		}
	}
}

// with adds what the flags stand for to the values of the configuration. base is the configuration without them.
func (t *Triton) with(base config.Config, values map[string]string) (map[string]string, error) {
	all := map[string]string{} // of a command without these flags, t.values is nil
	maps.Copy(all, t.values)
	if err := t.addresses(base, all); err != nil {
		return nil, err
	}
	t.tls(all)
	for key, value := range values { // those of --set have priority
		all[key] = value
	}
	return all, nil
}

// listener is a server with an address and a port of its own flags.
type listener struct {
	key, allow, address, port string
	present                   string
}

func (t *Triton) addresses(base config.Config, all map[string]string) error {
	var problems []error
	for _, d := range []listener{
		{"http.address", "allow-http", "http-address", "http-port", base.HTTP.Address},
		{"grpc.address", "allow-grpc", "grpc-address", "grpc-port", base.GRPC.Address},
		{"metrics.address", "allow-metrics", "metrics-address", "metrics-port", base.Metrics.Address},
	} {
		if off, given := t.given[d.allow]; given {
			if truth, _ := truthOf(off); !truth {
				all[d.key] = ""
				continue
			}
		}
		host, hasHost := t.given[d.address]
		port, hasPort := t.given[d.port]
		if d.key == "metrics.address" && !hasHost { // it follows the REST server
			host, hasHost = t.given["http-address"]
		}
		if !hasHost && !hasPort {
			continue
		}
		presentHost, presentPort, err := net.SplitHostPort(d.present)
		if err != nil { // the configuration disables it, and the flags enable it
			presentHost, presentPort = "127.0.0.1",
				strconv.Itoa(map[string]int{"http.address": 8000, "grpc.address": 8001, "metrics.address": 8002}[d.key])
		}
		if !hasHost {
			host = presentHost
		}
		if !hasPort {
			port = presentPort
		}
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			problems = append(problems, cli.Usagef("--%s %.20q: want a port from 0 to 65535", d.port, port))
		}
		all[d.key] = net.JoinHostPort(host, port)
	}
	return errors.Join(problems...)
}

// tls sets the files of the gRPC server's certificate when the flags enable TLS.
func (t *Triton) tls(all map[string]string) {
	one, _ := truthOf(t.given["grpc-use-ssl"])
	both, _ := truthOf(t.given["grpc-use-ssl-mutual"])
	if !one && !both {
		return
	}
	all["grpc.tls_certificate"], all["grpc.tls_key"] = t.given["grpc-server-cert"], t.given["grpc-server-key"]
	if both {
		all["grpc.tls_client_authorities"] = t.given["grpc-root-cert"]
	}
}

// preset returns the defaults of a box that is started with --model-repository, as Triton is: messages as large as gRPC
// allows, a data folder that is removed at the end, no accounts and no TLS. Everything that is set has priority.
func (t *Triton) preset() map[string]string {
	if t.values["repository.folders"] == "" {
		return nil
	}
	return map[string]string{
		"data_dir": filepath.Join(os.TempDir(), "edgewise-"+strconv.Itoa(os.Getpid())), "store.reserve_bytes": "0", "auth": config.AuthOpen,
		"http.allowed_hosts": "*", "tls.mode": config.TLSOff,
		"grpc.max_message_bytes": "2147483647", "grpc.max_inflight_bytes": "2147483648",
	}
}

// key is a flag whose text is the value of a key.
func key(flag, key string) tritonFlag {
	return tritonFlag{name: flag, apply: func(t *Triton, text string) error { t.values[key] = text; return nil }}
}

// truth is a flag whose truth value is that of a key.
func truth(flag, name string) tritonFlag { return boolean(key(flag, name)) }

// opposite is a flag that is true where a key is false.
func opposite(flag, key string) tritonFlag {
	return boolean(tritonFlag{name: flag, apply: func(t *Triton, text string) error {
		t.values[key] = strconv.FormatBool(text != "true")
		return nil
	}})
}

// boolean is a flag that is true or false.
func boolean(f tritonFlag) tritonFlag {
	f.yes = true
	return f
}

// word is a flag whose text is one of a key's words, in capitals or not.
func word(flag, key string) tritonFlag {
	return tritonFlag{name: flag, apply: func(t *Triton, text string) error { t.values[key] = strings.ToLower(text); return nil }}
}

// list is a flag that may be repeated, each value one of a list. A value that is repeated is listed once.
func list(flag, key string) tritonFlag {
	return tritonFlag{name: flag, apply: func(t *Triton, text string) error {
		if !slices.Contains(t.lists[key], text) {
			t.append(key, text)
		}
		return nil
	}}
}

func (t *Triton) append(key, text string) { t.setList(key, append(t.lists[key], text)) }

// setList writes a list as JSON, since its values may hold commas.
func (t *Triton) setList(key string, values []string) {
	t.lists[key] = values
	text, _ := json.Marshal(values) // texts are always JSON
	t.values[key] = string(text)
}

// span is a flag whose number of units is a key's duration.
func span(flag, key string, unit time.Duration) tritonFlag {
	return tritonFlag{name: flag, apply: func(t *Triton, text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > int64(1<<62)/int64(unit) {
			return fmt.Errorf("want a number of units of %v, got %.40q", unit, text)
		}
		t.values[key] = (time.Duration(n) * unit).String()
		return nil
	}}
}

// pointless is a flag that has no effect here. Its value is checked all the same.
func pointless(flag, reason string, checks ...func(text string) error) tritonFlag {
	return tritonFlag{name: flag, apply: func(t *Triton, text string) error {
		for _, check := range checks {
			if err := check(text); err != nil {
				return err
			}
		}
		t.note(flag, reason)
		return nil
	}}
}

// number checks that a value is a whole number within bounds.
func number(low, high int64) func(text string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("want a whole number, got %.40q", text)
		case n < low && high == math.MaxInt64:
			return fmt.Errorf("must be greater than %d, got %d", low-1, n)
		case n < low || n > high:
			return fmt.Errorf("must be in the range %d to %d, got %d", low, high, n)
		}
		return nil
	}
}

// never is a flag for something that is not supported: only false is accepted.
func never(flag, reason string) tritonFlag {
	return boolean(tritonFlag{name: flag, apply: func(_ *Triton, text string) error {
		if text == "true" {
			return errors.New(reason)
		}
		return nil
	}})
}

// kept is a flag that is read when all flags are known.
func kept(flag string) tritonFlag {
	return tritonFlag{name: flag, apply: func(*Triton, string) error { return nil }}
}

func (t *Triton) note(flag, reason string) { t.log(noEffect, flag, reason) }

func (t *Triton) log(message, flag, reason string) {
	n := Note{message, flag, reason}
	if !slices.Contains(t.Notes, n) {
		t.Notes = append(t.Notes, n)
	}
}
