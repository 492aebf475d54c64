package arch

import (
	"go/ast"
	"testing"
)

// maxRootNames bounds the exported names of the root package, methods and fields apart. It holds the types and errors
// that packages share; what one package uses is declared there, and what runs is in a package with that name.
const maxRootNames = 187

func TestTheRootPackageExportsFewNames(t *testing.T) {
	_, all := files(t)
	var names []string
	note := func(list ...*ast.Ident) {
		for _, name := range list {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	for _, f := range all {
		if f.folder != "." || f.test {
			continue
		}
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					note(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						note(spec.Name)
					case *ast.ValueSpec:
						note(spec.Names...)
					}
				}
			}
		}
	}
	if len(names) > maxRootNames || len(names) < maxRootNames/2 {
		t.Errorf("the root exports %d names, want at most %d: %v", len(names), maxRootNames, names)
	}
}
