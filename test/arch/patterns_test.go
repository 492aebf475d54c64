package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRegularExpressionsAreCompiledWhenTheyAreUsed wants those of the program to be of package pattern, and each of them to
// be one.
func TestRegularExpressionsAreCompiledWhenTheyAreUsed(t *testing.T) {
	set, list := files(t)
	found := 0
	for _, f := range list {
		if f.test || f.made || f.folder == "pattern" || strings.HasPrefix(f.folder, "test/") {
			continue
		}
		for _, d := range f.syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			ast.Inspect(g, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				s, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch of, _ := s.X.(*ast.Ident); {
				case of == nil:
				case of.Name == "regexp":
					t.Errorf("%v: a variable of a package is a pattern.Pattern", set.Position(call.Pos()))
				case of.Name == "pattern" && s.Sel.Name == "New":
					found++
					expression, err := strconv.Unquote(joined(call.Args[0]))
					if err == nil {
						_, err = regexp.Compile(expression)
					}
					if err != nil {
						t.Errorf("%v: %v", set.Position(call.Pos()), err)
					}
				}
				return true
			})
		}
	}
	if found < 40 {
		t.Errorf("only %d patterns found: the walk is broken", found)
	}
}

// joined is a literal, or the sum of several, as one literal; "" for something else.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value
	case *ast.BinaryExpr:
		left, err := strconv.Unquote(joined(e.X))
		right, failed := strconv.Unquote(joined(e.Y))
		if err == nil && failed == nil {
			return strconv.Quote(left + right)
		}
	}
	return ""
}
