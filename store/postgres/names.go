package postgres

import (
	"fmt"
	"regexp"

	"github.com/dltbatch/dltbatch/batch"
)

// DefaultSchema holds the tables if Options.Schema is "".
const DefaultSchema = "dltbatch"

// maxPrefix is the longest prefix, in bytes. With it the longest name, transaction_receipts_pkey,
// fits into PostgreSQL's 63 bytes.
const maxPrefix = 30

var identifierPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// names converts the names in this package's statements into the database's names.
type names struct{ schema, prefix string }

func newNames(o Options) (names, error) {
	n := names{o.Schema, o.Prefix}
	if n.schema == "" {
		n.schema = DefaultSchema
	}
	if !identifierPattern.MatchString(n.schema) {
		return n, &batch.InputError{Field: "Options.Schema", Value: batch.Excerpt(n.schema, 80), Want: "lower-case letters, digits and underscores, at most 63 bytes"}
	}
	if n.prefix != "" && (!identifierPattern.MatchString(n.prefix) || len(n.prefix) > maxPrefix) {
		return n, &batch.InputError{Field: "Options.Prefix", Value: batch.Excerpt(n.prefix, 80), Want: fmt.Sprintf("lower-case letters, digits and underscores, at most %d bytes", maxPrefix)}
	}
	return n, nil
}

// table returns the quoted name of a table with its schema.
func (n names) table(name string) string { return `"` + n.schema + `"."` + n.prefix + name + `"` }

// index returns the name of an index as the server reports it.
func (n names) index(name string) string { return n.prefix + name }

// tableNamePattern matches a name in a statement: {table}, or {.index}, which gets no schema.
var tableNamePattern = regexp.MustCompile(`\{\.?[a-z_]+\}`)

func (n names) fill(statement string) string {
	return tableNamePattern.ReplaceAllStringFunc(statement, func(t string) string {
		if t[1] == '.' {
			return `"` + n.prefix + t[2:len(t)-1] + `"`
		}
		return n.table(t[1 : len(t)-1])
	})
}

// sql returns a statement in the form in which the database gets it.
func (s *Store) sql(statement string) string { return s.texts.Of(statement) }
