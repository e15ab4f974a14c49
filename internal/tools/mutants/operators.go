package main

import (
	"bytes"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// change is one small change of the code.
type change struct {
	file             string // relative to the root of the module
	function         string // the function, with its receiver's type
	operator         string // the operator that made the change
	start            int    // offset of the old text in the file
	oldText, newText string
	occurrence       int // number among the changes of this function with the same operator and texts, from 1
}

// otherToken maps a token to its replacement.
var otherToken = map[token.Token]struct {
	op  string
	tok token.Token
}{
	token.LSS: {"boundary", token.LEQ}, token.LEQ: {"boundary", token.LSS},
	token.GTR: {"boundary", token.GEQ}, token.GEQ: {"boundary", token.GTR},
	token.EQL: {"negation", token.NEQ}, token.NEQ: {"negation", token.EQL},
	token.LAND: {"condition", token.LOR}, token.LOR: {"condition", token.LAND},
	token.ADD: {"arithmetic", token.SUB}, token.SUB: {"arithmetic", token.ADD},
	token.MUL: {"arithmetic", token.QUO}, token.QUO: {"arithmetic", token.MUL},
	token.AND: {"arithmetic", token.OR}, token.OR: {"arithmetic", token.AND},
	token.ADD_ASSIGN: {"arithmetic", token.SUB_ASSIGN}, token.SUB_ASSIGN: {"arithmetic", token.ADD_ASSIGN},
	token.INC: {"arithmetic", token.DEC}, token.DEC: {"arithmetic", token.INC},
	token.BREAK: {"statement", token.CONTINUE}, token.CONTINUE: {"statement", token.BREAK},
}

// otherName maps the name of a function or a method to its replacement.
var otherName = map[string]string{"Before": "After", "After": "Before", "min": "max", "max": "min", "HasPrefix": "HasSuffix", "HasSuffix": "HasPrefix"}

// sqlChanges maps words of SQL to their replacements.
var sqlChanges = []struct {
	op   string
	find *regexp.Regexp
	put  []string
}{
	{"boundary", regexp.MustCompile(` < `), []string{" <= "}},
	{"boundary", regexp.MustCompile(` <= `), []string{" < "}},
	{"boundary", regexp.MustCompile(` > `), []string{" >= "}},
	{"boundary", regexp.MustCompile(` >= `), []string{" > "}},
	{"negation", regexp.MustCompile(` (?:=|IS) `), []string{" IS NOT "}},
	{"negation", regexp.MustCompile(` <> `), []string{" = "}},
	{"negation", regexp.MustCompile(`\bNOT `), []string{""}},
	{"condition", regexp.MustCompile(`\bAND [^()'"]*?(\b(?:AND|OR|ORDER|FOR|LIMIT|RETURNING)\b|\)|.$)`), []string{"$1"}},
	{"condition", regexp.MustCompile(`\bAND\b`), []string{"OR"}},
	{"condition", regexp.MustCompile(`\bOR\b`), []string{"AND"}},
	{"constant", regexp.MustCompile(`\b[0-9]\b`), []string{"7"}},
	{"constant", regexp.MustCompile(`\bmin\(`), []string{"max("}},
	{"constant", regexp.MustCompile(`\bmax\(`), []string{"min("}},
	{"arithmetic", regexp.MustCompile(` \+ `), []string{" - "}},
	{"statement", regexp.MustCompile(`\b(?:FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)|SKIP LOCKED|DESC|DISTINCT)\b`), []string{""}},
}

var isSQL = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|WHERE|AND|OR|ORDER BY|SET|CASE|RETURNING)\b`)

// changeFinder finds the changes of one file.
type changeFinder struct {
	tree        *tree
	pkg         *pkg
	file        string
	src         []byte
	function    string
	found       []change
	occurrences map[change]int
}

// changes returns all changes of a package.
func (t *tree) changes(p *pkg) ([]change, error) {
	if err := t.checkTypes(p); err != nil {
		return nil, err
	}
	var all []change
	for _, path := range slices.Sorted(maps.Keys(p.files)) {
		if bytes.HasPrefix(p.src[path], []byte("// Code generated")) {
			continue
		}
		f := &changeFinder{tree: t, pkg: p, file: t.rel(path), src: p.src[path], occurrences: map[change]int{}}
		for _, d := range p.files[path].Decls {
			f.function = "-"
			if fn, ok := d.(*ast.FuncDecl); ok {
				f.function = fn.Name.Name
				if fn.Recv != nil {
					f.function = strings.TrimLeft(f.textOf(fn.Recv.List[0].Type), "*") + "." + f.function
				}
			}
			ast.Inspect(d, f.visit)
		}
		all = append(all, f.found...)
	}
	return all, nil
}

func (f *changeFinder) textBetween(from, to token.Pos) string {
	return string(f.src[f.tree.fileSet.Position(from).Offset:f.tree.fileSet.Position(to).Offset])
}

func (f *changeFinder) textOf(n ast.Node) string { return f.textBetween(n.Pos(), n.End()) }

func (f *changeFinder) add(op string, from, to token.Pos, text string) {
	c := change{file: f.file, function: f.function, operator: op, oldText: f.textBetween(from, to), newText: text}
	if oneLine(c.oldText) == oneLine(c.newText) {
		return
	}
	f.occurrences[c]++
	c.occurrence = f.occurrences[c]
	c.start = f.tree.fileSet.Position(from).Offset
	f.found = append(f.found, c)
}

// addReplacement replaces a node by a text.
func (f *changeFinder) addReplacement(op string, n ast.Node, text string) {
	f.add(op, n.Pos(), n.End(), text)
}

// addTokenChange replaces a token by its counterpart in other.
func (f *changeFinder) addTokenChange(at token.Pos, t token.Token) {
	if o, ok := otherToken[t]; ok {
		f.add(o.op, at, at+token.Pos(len(t.String())), o.tok.String())
	}
}

// addSwaps exchanges pairs of expressions that have the same type.
func (f *changeFinder) addSwaps(op string, list []ast.Expr) {
	for i, a := range list {
		for _, b := range list[i+1:] {
			ta, tb := f.pkg.info.TypeOf(a), f.pkg.info.TypeOf(b)
			if ta != nil && tb != nil && types.Identical(ta, tb) && f.textOf(a) != f.textOf(b) {
				f.add(op, a.Pos(), b.End(), f.textOf(b)+f.textBetween(a.End(), b.Pos())+f.textOf(a))
			}
		}
	}
}

// addZero replaces a value by the zero value of its type.
func (f *changeFinder) addZero(op string, e ast.Expr) {
	tv := f.pkg.info.Types[e]
	if tv.Type == nil || !tv.IsValue() || tv.Value != nil || tv.IsNil() {
		return
	}
	switch t := tv.Type.Underlying().(type) {
	case *types.Basic:
		switch {
		case t.Info()&types.IsString != 0:
			f.addReplacement(op, e, `""`)
		case t.Info()&types.IsNumeric != 0:
			f.addReplacement(op, e, "0")
		case t.Info()&types.IsBoolean != 0:
			f.addReplacement("negation", e, "!("+f.textOf(e)+")")
		}
	case *types.Slice, *types.Map, *types.Pointer, *types.Signature, *types.Chan:
		f.addReplacement(op, e, "nil")
	case *types.Struct:
		f.addReplacement(op, e, types.TypeString(tv.Type, func(p *types.Package) string {
			if p == f.pkg.types {
				return ""
			}
			return p.Name()
		})+"{}")
	}
}

// addConditionChanges makes a condition always true, and always false.
func (f *changeFinder) addConditionChanges(e ast.Expr) {
	f.addReplacement("condition", e, "true || ("+f.textOf(e)+")")
	f.addReplacement("condition", e, "false && ("+f.textOf(e)+")")
	f.addReplacement("negation", e, "!("+f.textOf(e)+")")
}

// visit finds the changes at one node, and reports whether to visit the parts of the node.
func (f *changeFinder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.Field:
		return false
	case *ast.IfStmt:
		f.addConditionChanges(n.Cond)
	case *ast.RangeStmt:
		f.addZero("condition", n.X)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.addReplacement("condition", n.Cond, "false && ("+f.textOf(n.Cond)+")")
		}
	case *ast.BinaryExpr:
		f.visitBinary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			f.addReplacement("negation", n, f.textOf(n.X))
		}
	case *ast.AssignStmt:
		f.addTokenChange(n.TokPos, n.Tok)
		if len(n.Lhs) > 1 && len(n.Rhs) == 1 {
			f.addSwaps("results", n.Lhs)
		}
		if n.Tok != token.DEFINE {
			f.addReplacement("statement", n, "")
		}
		if n.Tok == token.DEFINE || n.Tok == token.ASSIGN {
			for _, e := range n.Rhs {
				f.addZero("assignment", e)
			}
		}
	case *ast.IncDecStmt:
		f.addTokenChange(n.TokPos, n.Tok)
		f.addReplacement("statement", n, "")
	case *ast.BranchStmt:
		f.addTokenChange(n.Pos(), n.Tok)
		f.addReplacement("statement", n, "")
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.CommClause:
		f.addReplacement("statement", n, "")
	case *ast.CaseClause:
		if len(n.List) > 0 {
			f.addReplacement("condition", n, "")
		}
		for i, e := range n.List {
			switch {
			case i > 0:
				f.add("condition", n.List[i-1].End(), e.End(), "")
			case len(n.List) > 1:
				f.add("condition", e.Pos(), n.List[1].Pos(), "")
			}
			if t := f.pkg.info.TypeOf(e); t != nil && types.Identical(t.Underlying(), types.Typ[types.Bool]) {
				f.addConditionChanges(e)
			}
		}
	case *ast.ReturnStmt:
		f.visitReturn(n)
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				f.addZero("field", kv.Value)
				if to := f.tree.fileSet.Position(kv.End()).Offset; to < len(f.src) && f.src[to] == ',' {
					f.add("field", kv.Pos(), kv.End()+1, "")
				} else {
					f.addReplacement("field", kv, "")
				}
			}
		}
	case *ast.CallExpr:
		return f.visitCall(n)
	case *ast.BasicLit:
		f.visitLiteral(n)
	case *ast.Ident:
		f.visitConstant(n)
	}
	return true
}

func (f *changeFinder) visitBinary(n *ast.BinaryExpr) {
	if t := f.pkg.info.TypeOf(n); n.Op != token.ADD || t == nil || !types.Identical(t.Underlying(), types.Typ[types.String]) {
		f.addTokenChange(n.OpPos, n.Op)
	}
	for _, e := range []ast.Expr{n.X, n.Y} {
		switch n.Op {
		case token.LAND:
			f.addReplacement("condition", e, "(true || "+f.textOf(e)+")")
		case token.LOR:
			f.addReplacement("condition", e, "(false && "+f.textOf(e)+")")
		}
	}
}

func (f *changeFinder) visitReturn(n *ast.ReturnStmt) {
	f.addReplacement("return", n, "")
	f.addSwaps("results", n.Results)
	for _, e := range n.Results {
		f.addZero("results", e)
		t := f.pkg.info.TypeOf(e)
		switch {
		case t == nil || types.Identical(t, types.Typ[types.UntypedNil]):
		case types.Identical(t, types.Universe.Lookup("error").Type()):
			f.addReplacement("error", e, "nil")
		}
	}
}

func (f *changeFinder) visitCall(n *ast.CallExpr) bool {
	name, in := n.Fun, ""
	if s, ok := n.Fun.(*ast.SelectorExpr); ok {
		name = s.Sel
		if x, ok := s.X.(*ast.Ident); ok {
			in = x.Name
		}
		if to := map[string]string{"Before": "Before", "After": "After"}[s.Sel.Name]; to != "" && len(n.Args) == 1 {
			f.addReplacement("boundary", n, "!"+f.textOf(n.Args[0])+"."+to+"("+f.textOf(s.X)+")")
		}
	}
	id, ok := name.(*ast.Ident)
	if ok && otherName[id.Name] != "" {
		f.addReplacement("negation", id, otherName[id.Name])
	}
	if !ok || id.Name != "min" && id.Name != "max" {
		f.addSwaps("arguments", n.Args)
	}
	for _, e := range n.Args {
		if !ok || id.Name != "make" { // a zero in the arguments of make changes the capacity at most
			f.addZero("arguments", e)
		}
	}
	return in != "fmt" && in != "errors" && in != "slog" // no code decides by the text of an error
}

func (f *changeFinder) visitLiteral(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		f.addReplacement("constant", n, "("+n.Value+"+1)")
		f.addReplacement("constant", n, "("+n.Value+"-1)")
	case token.STRING:
		if !isSQL.MatchString(n.Value) {
			text, err := strconv.Unquote(n.Value)
			if err == nil {
				f.addReplacement("constant", n, strconv.Quote(text+"x"))
			}
			return
		}
		for _, s := range sqlChanges {
			for _, at := range s.find.FindAllStringSubmatchIndex(n.Value, -1) {
				for _, put := range s.put {
					from := n.Pos() + token.Pos(at[0])
					f.add(s.op, from, from+token.Pos(at[1]-at[0]), string(s.find.ExpandString(nil, put, n.Value, at)))
				}
			}
		}
	}
}

// visitConstant replaces a constant by the next one of its type, such as another state.
func (f *changeFinder) visitConstant(n *ast.Ident) {
	c, ok := f.pkg.info.Uses[n].(*types.Const)
	if !ok {
		return
	}
	if c.Pkg() == nil {
		if flip := map[string]string{"true": "false", "false": "true"}[c.Name()]; flip != "" {
			f.addReplacement("constant", n, flip)
		}
		return
	}
	var names []string
	at := 0
	for _, name := range c.Pkg().Scope().Names() {
		o, ok := c.Pkg().Scope().Lookup(name).(*types.Const)
		if !ok || !types.Identical(o.Type(), c.Type()) || c.Pkg() != f.pkg.types && !o.Exported() {
			continue
		}
		if o == c {
			at = len(names)
		}
		names = append(names, name)
	}
	if _, basic := c.Type().(*types.Basic); !basic && len(names) > 1 {
		f.addReplacement("constant", n, names[(at+1)%len(names)])
	}
}
