// Print what the Go types of the Kubernetes API say about their JSON: for each type its fields' names, Go types,
// options of the json tag and declared defaults; for each named type that is no struct, what it stands for.
//
//	go run hack/schema/gotypes.go NAME=FOLDER... > types.json
//
// NAME is the public name of the package in FOLDER (io.k8s.api.core.v1).
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

type field struct {
	Name    string `json:"name"` // empty: inlined
	Type    string `json:"type"`
	Options string `json:"options,omitempty"`
	Default string `json:"default,omitempty"`
	Blank   bool   `json:"blank,omitempty"` // the comment's text ends with an empty line
}

type value struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Comment string `json:"comment,omitempty"`
	same    string // the public name of the constant whose value it has
}

type named struct {
	Package string  `json:"package"`
	Values  []value `json:"values,omitempty"` // of an enumeration
	Fields  []field `json:"fields,omitempty"`
	Alias   string  `json:"alias,omitempty"`
	Own     bool    `json:"own,omitempty"` // has a MarshalJSON of its own
}

func public(path string) string {
	parts := strings.Split(path, "/")
	host := strings.Split(parts[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(host, parts[1:]...), ".")
}

func expression(e ast.Expr, self string, imports map[string]string) string {
	switch t := e.(type) {
	case *ast.Ident:
		if t.IsExported() {
			return self + "." + t.Name
		}
		return t.Name
	case *ast.SelectorExpr:
		return imports[t.X.(*ast.Ident).Name] + "." + t.Sel.Name
	case *ast.StarExpr:
		return "*" + expression(t.X, self, imports)
	case *ast.ArrayType:
		return "[]" + expression(t.Elt, self, imports)
	case *ast.MapType:
		return "map[" + expression(t.Key, self, imports) + "]" + expression(t.Value, self, imports)
	case *ast.InterfaceType:
		return "any"
	}
	return "?"
}

// declared returns the default that a comment declares: a JSON value, or ref(...) of a constant of the package.
func declared(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	for _, line := range doc.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		if value, found := strings.CutPrefix(text, "+default="); found {
			return value
		}
	}
	return ""
}

// blank tells whether the last line of a comment is empty, instructions to generators left out.
func blank(doc *ast.CommentGroup) bool {
	last := false
	if doc == nil {
		return last
	}
	for _, line := range doc.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		if !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "TODO") {
			last = text == ""
		}
	}
	return last
}

func fields(s *ast.StructType, self string, imports map[string]string) []field {
	found := []field{}
	for _, f := range s.Fields.List {
		tag := ""
		if f.Tag != nil {
			unquoted, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(unquoted).Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || (len(f.Names) > 0 && !f.Names[0].IsExported()) {
			continue
		}
		if name == "" && len(f.Names) > 0 {
			name = f.Names[0].Name
		}
		found = append(found, field{name, expression(f.Type, self, imports), options, declared(f.Doc), blank(f.Doc)})
	}
	return found
}

// constants adds the values that a declaration gives to types of its package, and to every constant by its public name.
func constants(declaration *ast.GenDecl, self string, imports map[string]string, values map[string][]value, all map[string]string) {
	for _, specification := range declaration.Specs {
		c, is := specification.(*ast.ValueSpec)
		if !is || declaration.Tok != token.CONST || len(c.Values) != 1 {
			continue
		}
		kind, given := c.Type, c.Values[0]
		if call, is := given.(*ast.CallExpr); is && len(call.Args) == 1 {
			kind, given = call.Fun, call.Args[0]
		}
		found := value{Name: c.Names[0].Name}
		switch g := given.(type) {
		case *ast.BasicLit:
			if g.Kind != token.STRING {
				continue
			}
			found.Value, _ = strconv.Unquote(g.Value)
			all[self+"."+found.Name] = found.Value
		case *ast.SelectorExpr:
			found.same = expression(g, self, imports)
		default:
			continue
		}
		comment := c.Doc
		if comment == nil && len(declaration.Specs) == 1 {
			comment = declaration.Doc
		}
		found.Comment = comment.Text()
		if t, is := kind.(*ast.Ident); is {
			values[self+"."+t.Name] = append(values[self+"."+t.Name], found)
		}
	}
}

// resolve replaces references to constants by what they stand for.
func resolve(types map[string]*named, values map[string][]value, all map[string]string) {
	for _, found := range values {
		for i, each := range found {
			if each.same != "" {
				found[i].Value = all[each.same]
			}
		}
	}
	for name, each := range types {
		self := name[:strings.LastIndex(name, ".")]
		for i, f := range each.Fields {
			if inner, found := strings.CutPrefix(f.Default, "ref("); found {
				written, _ := json.Marshal(all[self+"."+strings.TrimSuffix(inner, ")")])
				each.Fields[i].Default = string(written)
			}
		}
	}
}

func enumeration(groups ...*ast.CommentGroup) bool {
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, line := range group.List {
			if strings.TrimSpace(strings.TrimPrefix(line.Text, "//")) == "+enum" {
				return true
			}
		}
	}
	return false
}

func main() {
	types := map[string]*named{}
	values := map[string][]value{}
	all := map[string]string{}
	enumerations := map[string]bool{}
	own := map[string]bool{}
	for _, argument := range os.Args[1:] {
		self, folder, _ := strings.Cut(argument, "=")
		paths, _ := filepath.Glob(filepath.Join(folder, "*.go"))
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			imports := map[string]string{}
			for _, each := range file.Imports {
				at, _ := strconv.Unquote(each.Path.Value)
				name := filepath.Base(at)
				if each.Name != nil {
					name = each.Name.Name
				}
				imports[name] = public(at)
			}
			for _, declaration := range file.Decls {
				if function, is := declaration.(*ast.FuncDecl); is && function.Recv != nil && function.Name.Name == "MarshalJSON" {
					own[strings.TrimPrefix(expression(function.Recv.List[0].Type, self, imports), "*")] = true
				}
				general, is := declaration.(*ast.GenDecl)
				if !is {
					continue
				}
				constants(general, self, imports, values, all)
				for _, specification := range general.Specs {
					t, is := specification.(*ast.TypeSpec)
					if !is || !t.Name.IsExported() {
						continue
					}
					each := &named{Package: file.Name.Name}
					if s, is := t.Type.(*ast.StructType); is {
						each.Fields = fields(s, self, imports)
					} else if _, is := t.Type.(*ast.FuncType); is {
						continue
					} else {
						each.Alias = expression(t.Type, self, imports)
					}
					types[self+"."+t.Name.Name] = each
					enumerations[self+"."+t.Name.Name] = enumeration(t.Doc, general.Doc)
				}
			}
		}
	}
	resolve(types, values, all)
	for name, found := range values {
		if types[name] != nil && enumerations[name] {
			types[name].Values = found
		}
	}
	for name := range own {
		if types[name] != nil {
			types[name].Own = true
		}
	}
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	if err := output.Encode(types); err != nil {
		os.Exit(1)
	}
}
