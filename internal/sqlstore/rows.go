package sqlstore

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx/reflectx"
)

// columnCache knows where the columns of statements go: a column of a row goes into the field that
// has the column's name as its tag db. Each statement is looked at once, when it finds its first
// row. The methods may be called concurrently.
type columnCache struct {
	mapper *reflectx.Mapper
	mu     sync.RWMutex
	known  map[rowShape][][]int
}

// rowShape is a statement, and the struct that takes its rows.
type rowShape struct {
	dest      reflect.Type
	statement string
}

func newColumns() *columnCache {
	return &columnCache{mapper: reflectx.NewMapper("db"), known: map[rowShape][][]int{}}
}

// dest returns where the columns of a row go in the value that one points to: into its fields, or,
// where the value is no struct, into the value.
func (c *columnCache) dest(statement string, rows Rows, one any) ([]any, error) {
	v := reflect.ValueOf(one).Elem()
	if v.Kind() != reflect.Struct {
		return []any{one}, nil
	}
	fields, err := c.fields(rowShape{v.Type(), statement}, rows)
	if err != nil {
		return nil, err
	}
	dest := make([]any, len(fields))
	for i, f := range fields {
		dest[i] = v.FieldByIndex(f).Addr().Interface()
	}
	return dest, nil
}

func (c *columnCache) fields(r rowShape, rows Rows) ([][]int, error) {
	c.mu.RLock()
	fields, known := c.known[r]
	c.mu.RUnlock()
	if known {
		return fields, nil
	}
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for i, name := range names { // SQLite has pragmas that put the table before a name
		names[i] = name[strings.LastIndexByte(name, '.')+1:]
	}
	fields = make([][]int, len(names))
	err = c.mapper.TraversalsByNameFunc(r.dest, names, func(i int, field []int) error {
		if field == nil || slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("column %d, %q, has no field of its own in %s: %s", i+1, names[i], r.dest, r.statement)
		}
		fields[i] = field
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[r] = fields
	return fields, nil
}
