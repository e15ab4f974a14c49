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
	file     string // relative to the root of the module
	fn       string // the function, with its receiver's type
	op       string // the operator that made the change
	start    int    // offset of the old text in the file
	old, new string
	nth      int // number among the changes of this function with the same operator and texts, from 1
}

// other maps a token to its replacement.
var other = map[token.Token]struct {
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

// named maps the name of a function or a method to its replacement.
var named = map[string]string{"Before": "After", "After": "Before", "min": "max", "max": "min", "HasPrefix": "HasSuffix", "HasSuffix": "HasPrefix"}

// sql maps words of SQL to their replacements.
var sql = []struct {
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

// finder finds the changes of one file.
type finder struct {
	t    *tree
	p    *pkg
	file string
	src  []byte
	fn   string
	all  []change
	seen map[change]int
}

// changes returns all changes of a package.
func (t *tree) changes(p *pkg) ([]change, error) {
	if err := t.check(p); err != nil {
		return nil, err
	}
	var all []change
	for _, path := range slices.Sorted(maps.Keys(p.files)) {
		if bytes.HasPrefix(p.src[path], []byte("// Code generated")) {
			continue
		}
		f := &finder{t: t, p: p, file: t.rel(path), src: p.src[path], seen: map[change]int{}}
		for _, d := range p.files[path].Decls {
			f.fn = "-"
			if fn, ok := d.(*ast.FuncDecl); ok {
				f.fn = fn.Name.Name
				if fn.Recv != nil {
					f.fn = strings.TrimLeft(f.node(fn.Recv.List[0].Type), "*") + "." + f.fn
				}
			}
			ast.Inspect(d, f.visit)
		}
		all = append(all, f.all...)
	}
	return all, nil
}

func (f *finder) text(from, to token.Pos) string {
	return string(f.src[f.t.set.Position(from).Offset:f.t.set.Position(to).Offset])
}

func (f *finder) node(n ast.Node) string { return f.text(n.Pos(), n.End()) }

func (f *finder) put(op string, from, to token.Pos, text string) {
	c := change{file: f.file, fn: f.fn, op: op, old: f.text(from, to), new: text}
	if words(c.old) == words(c.new) {
		return
	}
	f.seen[c]++
	c.nth = f.seen[c]
	c.start = f.t.set.Position(from).Offset
	f.all = append(f.all, c)
}

// change replaces a node by a text.
func (f *finder) change(op string, n ast.Node, text string) { f.put(op, n.Pos(), n.End(), text) }

// token replaces a token by its counterpart in other.
func (f *finder) token(at token.Pos, t token.Token) {
	if o, ok := other[t]; ok {
		f.put(o.op, at, at+token.Pos(len(t.String())), o.tok.String())
	}
}

// swap exchanges pairs of expressions that have the same type.
func (f *finder) swap(op string, list []ast.Expr) {
	for i, a := range list {
		for _, b := range list[i+1:] {
			ta, tb := f.p.info.TypeOf(a), f.p.info.TypeOf(b)
			if ta != nil && tb != nil && types.Identical(ta, tb) && f.node(a) != f.node(b) {
				f.put(op, a.Pos(), b.End(), f.node(b)+f.text(a.End(), b.Pos())+f.node(a))
			}
		}
	}
}

// zero replaces a value by the zero value of its type.
func (f *finder) zero(op string, e ast.Expr) {
	tv := f.p.info.Types[e]
	if tv.Type == nil || !tv.IsValue() || tv.Value != nil || tv.IsNil() {
		return
	}
	switch t := tv.Type.Underlying().(type) {
	case *types.Basic:
		switch {
		case t.Info()&types.IsString != 0:
			f.change(op, e, `""`)
		case t.Info()&types.IsNumeric != 0:
			f.change(op, e, "0")
		case t.Info()&types.IsBoolean != 0:
			f.change("negation", e, "!("+f.node(e)+")")
		}
	case *types.Slice, *types.Map, *types.Pointer, *types.Signature, *types.Chan:
		f.change(op, e, "nil")
	case *types.Struct:
		f.change(op, e, types.TypeString(tv.Type, func(p *types.Package) string {
			if p == f.p.types {
				return ""
			}
			return p.Name()
		})+"{}")
	}
}

// condition makes a condition always true, and always false.
func (f *finder) condition(e ast.Expr) {
	f.change("condition", e, "true || ("+f.node(e)+")")
	f.change("condition", e, "false && ("+f.node(e)+")")
	f.change("negation", e, "!("+f.node(e)+")")
}

// visit finds the changes at one node, and reports whether to visit the parts of the node.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.Field:
		return false
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.RangeStmt:
		f.zero("condition", n.X)
	case *ast.ForStmt:
		if n.Cond != nil {
			f.change("condition", n.Cond, "false && ("+f.node(n.Cond)+")")
		}
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			f.change("negation", n, f.node(n.X))
		}
	case *ast.AssignStmt:
		f.token(n.TokPos, n.Tok)
		if len(n.Lhs) > 1 && len(n.Rhs) == 1 {
			f.swap("results", n.Lhs)
		}
		if n.Tok != token.DEFINE {
			f.change("statement", n, "")
		}
		if n.Tok == token.DEFINE || n.Tok == token.ASSIGN {
			for _, e := range n.Rhs {
				f.zero("assignment", e)
			}
		}
	case *ast.IncDecStmt:
		f.token(n.TokPos, n.Tok)
		f.change("statement", n, "")
	case *ast.BranchStmt:
		f.token(n.Pos(), n.Tok)
		f.change("statement", n, "")
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.CommClause:
		f.change("statement", n, "")
	case *ast.CaseClause:
		if len(n.List) > 0 {
			f.change("condition", n, "")
		}
		for i, e := range n.List {
			switch {
			case i > 0:
				f.put("condition", n.List[i-1].End(), e.End(), "")
			case len(n.List) > 1:
				f.put("condition", e.Pos(), n.List[1].Pos(), "")
			}
			if t := f.p.info.TypeOf(e); t != nil && types.Identical(t.Underlying(), types.Typ[types.Bool]) {
				f.condition(e)
			}
		}
	case *ast.ReturnStmt:
		f.results(n)
	case *ast.CompositeLit:
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				f.zero("field", kv.Value)
				if to := f.t.set.Position(kv.End()).Offset; to < len(f.src) && f.src[to] == ',' {
					f.put("field", kv.Pos(), kv.End()+1, "")
				} else {
					f.change("field", kv, "")
				}
			}
		}
	case *ast.CallExpr:
		return f.call(n)
	case *ast.BasicLit:
		f.literal(n)
	case *ast.Ident:
		f.constant(n)
	}
	return true
}

func (f *finder) binary(n *ast.BinaryExpr) {
	if t := f.p.info.TypeOf(n); n.Op != token.ADD || t == nil || !types.Identical(t.Underlying(), types.Typ[types.String]) {
		f.token(n.OpPos, n.Op)
	}
	for _, e := range []ast.Expr{n.X, n.Y} {
		switch n.Op {
		case token.LAND:
			f.change("condition", e, "(true || "+f.node(e)+")")
		case token.LOR:
			f.change("condition", e, "(false && "+f.node(e)+")")
		}
	}
}

func (f *finder) results(n *ast.ReturnStmt) {
	f.change("return", n, "")
	f.swap("results", n.Results)
	for _, e := range n.Results {
		f.zero("results", e)
		t := f.p.info.TypeOf(e)
		switch {
		case t == nil || types.Identical(t, types.Typ[types.UntypedNil]):
		case types.Identical(t, types.Universe.Lookup("error").Type()):
			f.change("error", e, "nil")
		}
	}
}

func (f *finder) call(n *ast.CallExpr) bool {
	name, in := n.Fun, ""
	if s, ok := n.Fun.(*ast.SelectorExpr); ok {
		name = s.Sel
		if x, ok := s.X.(*ast.Ident); ok {
			in = x.Name
		}
		if to := map[string]string{"Before": "Before", "After": "After"}[s.Sel.Name]; to != "" && len(n.Args) == 1 {
			f.change("boundary", n, "!"+f.node(n.Args[0])+"."+to+"("+f.node(s.X)+")")
		}
	}
	id, ok := name.(*ast.Ident)
	if ok && named[id.Name] != "" {
		f.change("negation", id, named[id.Name])
	}
	if !ok || id.Name != "min" && id.Name != "max" {
		f.swap("arguments", n.Args)
	}
	for _, e := range n.Args {
		if !ok || id.Name != "make" { // a zero in the arguments of make changes the capacity at most
			f.zero("arguments", e)
		}
	}
	return in != "fmt" && in != "errors" && in != "slog" // no code decides by the text of an error
}

func (f *finder) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		f.change("constant", n, "("+n.Value+"+1)")
		f.change("constant", n, "("+n.Value+"-1)")
	case token.STRING:
		if !isSQL.MatchString(n.Value) {
			text, err := strconv.Unquote(n.Value)
			if err == nil {
				f.change("constant", n, strconv.Quote(text+"x"))
			}
			return
		}
		for _, s := range sql {
			for _, at := range s.find.FindAllStringSubmatchIndex(n.Value, -1) {
				for _, put := range s.put {
					from := n.Pos() + token.Pos(at[0])
					f.put(s.op, from, from+token.Pos(at[1]-at[0]), string(s.find.ExpandString(nil, put, n.Value, at)))
				}
			}
		}
	}
}

// constant replaces a constant by the next one of its type, such as another state.
func (f *finder) constant(n *ast.Ident) {
	c, ok := f.p.info.Uses[n].(*types.Const)
	if !ok {
		return
	}
	if c.Pkg() == nil {
		if flip := map[string]string{"true": "false", "false": "true"}[c.Name()]; flip != "" {
			f.change("constant", n, flip)
		}
		return
	}
	var names []string
	at := 0
	for _, name := range c.Pkg().Scope().Names() {
		o, ok := c.Pkg().Scope().Lookup(name).(*types.Const)
		if !ok || !types.Identical(o.Type(), c.Type()) || c.Pkg() != f.p.types && !o.Exported() {
			continue
		}
		if o == c {
			at = len(names)
		}
		names = append(names, name)
	}
	if _, basic := c.Type().(*types.Basic); !basic && len(names) > 1 {
		f.change("constant", n, names[(at+1)%len(names)])
	}
}
