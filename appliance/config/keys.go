package config

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
)

// Key describes one key of a configuration.
type Key struct {
	Name    string // dotted, as flags use it: "http.address"
	Value   string // as the file writes it
	Default string // as the file writes it
	Unit    string // what its value is
	Want    string // its limits; "": none
	Doc     string // what it is for
	Secret  bool   // its value lets in whoever knows it
}

// hidden stands in the place of a secret.
const hidden = "(secret)"

// urlPassword matches the user of a URL, as its group, with the password behind it.
var urlPassword = pattern.New(`(://[^/\s:@"]*:)[^/\s@"]+@`)

// Shown returns the value without secrets: without that of a secret key, and without the password of a URL.
func (k *Key) Shown() string {
	if k.Secret && k.Value != k.Default {
		return hidden
	}
	return urlPassword.ReplaceAllString(k.Value, "${1}"+hidden+"@")
}

// Keys returns every key of c, in the order of the configuration file.
func (c Config) Keys() []Key {
	preset, all := Default(), c.keys()
	defaults, comments := preset.keys(), comments()
	keys := make([]Key, len(all))
	for i, k := range all {
		keys[i] = Key{
			Name: k.name, Value: text(k.field), Default: text(defaults[i].field),
			Unit: k.limit.unit, Want: k.limit.want, Doc: comments[k.declared], Secret: k.secret,
		}
	}
	return keys
}

// Default returns the configuration that holds when nothing is set.
func Default() Config {
	var c Config
	for _, k := range c.keys() {
		if _, list := k.field.(*[]string); k.preset == "" && !list {
			continue // its zero value; a list is empty, not nil
		}
		if err := set(k.field, k.preset); err != nil {
			panic("BUG: the default of " + k.name + ": " + err.Error())
		}
	}
	return c
}

// variable returns the name of the environment variable of a key.
func variable(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

const envPrefix = "EDGEWISE_"

// key is one key of a Config.
type key struct {
	name     string
	declared string // type and field: "HTTP.Address"
	preset   string // its default, as set reads it
	limit    limit
	secret   bool
	field    any // pointer to the value: a string, bool, int, Size, time.Duration or []string
}

// keys returns the keys of c, whose fields lead into c, in the order of their declaration.
func (c *Config) keys() []key { return keysOf(reflect.ValueOf(c).Elem(), "") }

func keysOf(section reflect.Value, prefix string) []key {
	var keys []key
	for i := range section.NumField() {
		declared := section.Type().Field(i)
		if declared.Tag.Get("json") == "-" {
			continue
		}
		name := prefix + declared.Tag.Get("json")
		if declared.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(section.Field(i), name+".")...)
			continue
		}
		k := key{
			name: name, declared: section.Type().Name() + "." + declared.Name, field: section.Field(i).Addr().Interface(),
			preset: declared.Tag.Get("default"), secret: declared.Tag.Get("secret") == "true",
		}
		k.limit = limitOf(k.field, declared.Tag.Get("limit"))
		if unit := declared.Tag.Get("unit"); unit != "" {
			k.limit.unit = unit
		}
		keys = append(keys, k)
	}
	return keys
}

// source is the text of the declarations, for their comments.
//
//go:embed config.go
var source string

// comments returns the comments of the fields in config.go, each on one line, by type and field.
func comments() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		panic("BUG: config.go: " + err.Error())
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		declared, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		for _, field := range declared.Type.(*ast.StructType).Fields.List {
			all[declared.Name.Name+"."+field.Names[0].Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
		return false
	})
	return all
}

// makeAbsolute makes the paths in c absolute, so that the program and its child processes mean the same files.
func (c *Config) makeAbsolute() error {
	for _, k := range c.keys() {
		for _, path := range k.paths() {
			absolute, err := filepath.Abs(*path)
			if err != nil {
				return edgewise.Errorf("config.Load", edgewise.Internal, "%s: %w", k.name, err)
			}
			*path = absolute
		}
	}
	return nil
}

// paths returns the paths in the value of a key that are to be absolute. A library without a slash is a name, not a
// path: the system's loader searches it.
func (k *key) paths() (all []*string) {
	switch field := k.field.(type) {
	case *string:
		if k.limit.path && !k.limit.output && *field != "" && (!k.limit.library || strings.Contains(*field, "/")) {
			all = append(all, field)
		}
	case *[]string:
		for i := range *field {
			if k.limit.path && !IsRemote((*field)[i]) {
				all = append(all, &(*field)[i])
			}
		}
	}
	return all
}
