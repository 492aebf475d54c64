package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/document"
	"github.com/edgewise-ai/edgewise/pattern"
)

// FileVariable is the environment variable that names the configuration file when Options.File is empty.
const FileVariable = "EDGEWISE_CONFIG"

// Options are the places that a configuration is read from.
type Options struct {
	File   string            // YAML or JSON; empty: FileVariable, and if that is empty too, no file
	Env    []string          // as os.Environ returns it
	Ignore []string          // EDGEWISE_ variables that are not for this package, such as those of the client
	Flags  map[string]string // by Key.Name, as text
	Preset map[string]string // by Key.Name, as text: in place of the defaults
}

// Load reads the configuration: flags over environment over file over defaults. All problems of all places are reported
// together, one a line, each with its file and line, its variable or its flag. Relative paths start at the working
// directory, and are absolute in the result. Errors: Invalid, NotFound (the file is not there), TooLarge (the file),
// Internal (the file cannot be read, or there is no working directory).
func Load(o Options) (Config, error) {
	c := Default()
	env := variables(o.Env)
	file := o.File
	if file == "" {
		file = env[FileVariable]
	}
	delete(env, FileVariable)
	for _, name := range o.Ignore {
		delete(env, name)
	}
	p := &problems{kind: edgewise.Invalid}
	ofFlag := func(k key) string { return k.name }
	for _, name := range sorted(o.Preset) {
		p.add(c.setKey("flag", name, o.Preset[name], ofFlag))
	}
	if file != "" {
		p.add(readFile(file, &c))
	}
	for _, name := range sorted(env) {
		p.add(c.setKey("environment variable", name, env[name], func(k key) string { return variable(k.name) }))
	}
	for _, name := range sorted(o.Flags) {
		p.add(c.setKey("flag", name, o.Flags[name], ofFlag))
	}
	p.add(c.Validate())
	p.add(c.makeAbsolute())
	c.Environment = remoteVariables(o.Env)
	return c, p.err()
}

// problems joins errors; the kind is that of the first which is not Invalid.
type problems struct {
	kind  edgewise.Kind
	lines []string
}

func (p *problems) add(err error) {
	if err == nil {
		return
	}
	p.lines = append(p.lines, err.Error())
	var e *edgewise.Error
	if p.kind == edgewise.Invalid && errors.As(err, &e) {
		p.kind = e.Kind
	}
}

func (p *problems) err() error {
	if len(p.lines) == 0 {
		return nil
	}
	return edgewise.Errorf("config.Load", p.kind, "%s", strings.Join(p.lines, "\n"))
}

func readFile(file string, c *Config) error {
	syntax, ok := document.SyntaxOf(file)
	if !ok || syntax == document.Pbtxt {
		return fmt.Errorf("configuration file %q: want a name that ends in .yaml, .yml or .json", file)
	}
	f, err := os.Open(file)
	if err != nil {
		kind := edgewise.Internal
		if errors.Is(err, os.ErrNotExist) {
			kind = edgewise.NotFound
		}
		return edgewise.Errorf("config.Load", kind, "configuration file: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, document.MaxBytes+1))
	if err != nil {
		return edgewise.Errorf("config.Load", edgewise.Internal, "configuration file: %w", err)
	}
	doc, err := document.Parse(file, syntax, data)
	if d, ok := errors.AsType[*document.Error](err); ok && d.TooLarge {
		return edgewise.Errorf("config.Load", edgewise.TooLarge, "%w", err)
	}
	if err != nil {
		return err
	}
	return doc.Decode(c, document.Schema{Name: "the configuration"})
}

// tritonVariable returns our name and value of an environment variable of Triton's; "" when it stands for no key.
func tritonVariable(name, value string) (string, string) {
	switch name {
	case "TRITONSERVER_DELAY_SCHEDULER":
		return variable("engine.test_queued"), value
	case "TRITONSERVER_BACKLOG_DELAY_SCHEDULER":
		return variable("engine.test_backlog"), value
	case "TRITON_SERVER_ESCAPE_LOG_MESSAGES": // Triton escapes unless the value is exactly 0
		return variable("log.escape"), strconv.FormatBool(value != "0")
	case "TRITON_CLOUD_CREDENTIAL_PATH":
		return variable("repository.credentials_file"), value
	}
	return "", ""
}

// variables returns those of the environment that begin with envPrefix, and those of Triton's that stand for a key,
// under our names. Where both are set, ours has priority.
func variables(environ []string) map[string]string {
	env, triton := map[string]string{}, map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok {
			continue
		}
		if strings.HasPrefix(name, envPrefix) {
			env[name] = value
		} else if ours, text := tritonVariable(name, value); ours != "" {
			triton[ours] = text
		}
	}
	maps.Copy(triton, env)
	return triton
}

// remoteVariables returns those of the environment that the clients of object stores and registries read.
func remoteVariables(environ []string) (found []string) {
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if remoteVariable.MatchString(name) {
			found = append(found, entry)
		}
	}
	return found
}

var remoteVariable = pattern.New(
	`^(AWS|GOOGLE|AZURE|STORAGE|GCE)_|^(HOME|SSL_CERT_FILE|SSL_CERT_DIR|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|DOCKER_CONFIG)$`)

// setKey sets the key whose name, as nameOf returns it, is name; place is where value is from.
func (c *Config) setKey(place, name, value string, nameOf func(key) string) error {
	var names []string
	for _, k := range c.keys() {
		names = append(names, nameOf(k))
		if nameOf(k) != name {
			continue
		}
		if err := set(k.field, value); err != nil {
			return fmt.Errorf("%s %s: %w", place, name, err)
		}
		return nil
	}
	return fmt.Errorf("%s %.80q stands for no key%s", place, name, document.Suggest(name, names))
}

// Validate reports every value that is outside its limits, and what does not go together, one problem a line. The error
// is of kind Invalid.
func (c Config) Validate() error {
	p := &problems{kind: edgewise.Invalid}
	for _, k := range c.keys() {
		if !k.limit.ok(k.field) {
			p.add(fmt.Errorf("%s: want %s, got %s", k.name, k.limit.want, withoutSecrets(text(k.field))))
		}
	}
	if c.HTTP.MaxJSONBytes > c.HTTP.MaxBodyBytes {
		p.add(fmt.Errorf("http.max_json_bytes: want at most http.max_body_bytes, which is %v, got %v", c.HTTP.MaxBodyBytes,
			c.HTTP.MaxJSONBytes))
	}
	if c.HTTP.MaxBodyBytes > c.HTTP.MaxInflightBytes {
		p.add(fmt.Errorf("http.max_body_bytes: want at most http.max_inflight_bytes, which is %v, got %v",
			c.HTTP.MaxInflightBytes, c.HTTP.MaxBodyBytes))
	}
	p.add(c.apart())
	return p.err()
}

// apart refuses one address for two servers, but for port 0, which is another one each time.
func (c Config) apart() error {
	of := map[string]string{}
	for _, server := range []struct{ key, address string }{
		{"http.address", c.HTTP.Address},
		{"grpc.address", c.GRPC.Address},
		{"metrics.address", c.Metrics.Address},
	} {
		if server.address == "" || strings.HasSuffix(server.address, ":0") {
			continue
		}
		if other := of[server.address]; other != "" {
			return fmt.Errorf("%s and %s: two servers cannot listen at the same address and port %s", other, server.key,
				server.address)
		}
		of[server.address] = server.key
	}
	return nil
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
