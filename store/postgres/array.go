package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Arrays are sent as PostgreSQL's text form, which every driver passes on unchanged and every
// protocol accepts. The statement names the type.

func intArray(n int, at func(i int) int64) string {
	b := append(make([]byte, 0, 2+n*8), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, at(i), 10)
	}
	return string(append(b, '}'))
}

func boolArray(n int, at func(i int) bool) string {
	b := append(make([]byte, 0, 2+n*2), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if at(i) {
			b = append(b, 't')
		} else {
			b = append(b, 'f')
		}
	}
	return string(append(b, '}'))
}

func textArray(n int, at func(i int) string) string {
	size := len("{}")
	for i := range n {
		size += len(at(i)) + len(`"",`)
	}
	b := append(make([]byte, 0, size), '{') // enough if no value needs an escape
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), escaped(at(i))...), '"')
	}
	return string(append(b, '}'))
}

// rowArrays collects rows. Each column is an array.
type rowArrays struct {
	n          int64
	capacity   int
	columns    [][]byte
	nextColumn int // the index of the row's next column
}

// addRow begins a row. most is the largest number of rows.
func (a *rowArrays) addRow(most int) *rowArrays {
	a.n, a.capacity, a.nextColumn = a.n+1, most, 0
	return a
}

// column begins the row's next column and returns the text to which the value is appended.
func (a *rowArrays) column() *[]byte {
	if a.n == 1 {
		a.columns = append(a.columns, append(make([]byte, 0, 2+18*a.capacity), '{'))
	} else {
		a.columns[a.nextColumn] = append(a.columns[a.nextColumn], ',')
	}
	a.nextColumn++
	return &a.columns[a.nextColumn-1]
}

func (a *rowArrays) addInts(list ...int64) *rowArrays {
	for _, v := range list {
		c := a.column()
		*c = strconv.AppendInt(*c, v, 10)
	}
	return a
}

func (a *rowArrays) addBools(list ...bool) *rowArrays {
	for _, v := range list {
		c := a.column()
		*c = strconv.AppendBool(*c, v)
	}
	return a
}

func (a *rowArrays) addTexts(list ...string) *rowArrays {
	for _, v := range list {
		c := a.column()
		*c = append(append(append(*c, '"'), escaped(v)...), '"')
	}
	return a
}

func (a *rowArrays) addNull() *rowArrays {
	c := a.column()
	*c = append(*c, "NULL"...)
	return a
}

// args returns the arrays of the columns.
func (a *rowArrays) args() []any {
	args := make([]any, len(a.columns))
	for i, c := range a.columns {
		args[i] = string(append(c, '}'))
	}
	return args
}

func escaped(text string) string {
	if strings.ContainsAny(text, `"\`) {
		return arrayEscapes.Replace(text)
	}
	return text
}

var arrayEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// Array returns an array of any element type.
func (t *session) Array(n int, at func(i int) any) any {
	b := append(make([]byte, 0, 2+12*n), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := at(i).(type) {
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case bool:
			b = strconv.AppendBool(b, v)
		case string:
			b = append(append(append(b, '"'), escaped(v)...), '"')
		case nil:
			b = append(b, "NULL"...)
		default:
			panic(fmt.Sprintf("an array of %T", v)) // so that no value is silently written as NULL
		}
	}
	return string(append(b, '}'))
}

// Ints returns an array of numbers.
func (t *session) Ints(list []int64) any { return ints(list) }

// ExecAll runs one statement, with an array for each column.
func (t *session) ExecAll(ctx context.Context, statement string, rows [][]any) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	columns := make([]any, len(rows[0]))
	for c := range columns {
		columns[c] = t.Array(len(rows), func(i int) any { return rows[i][c] })
	}
	return t.Exec(ctx, statement, columns...)
}

// hashArray returns a text of the type uuid[].
func hashArray(n int, at func(i int) [16]byte) string {
	b := append(make([]byte, 0, 2+n*33), '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		hash := at(i)
		b = hex.AppendEncode(b, hash[:])
	}
	return string(append(b, '}'))
}

func ints(list []int64) string { return intArray(len(list), func(i int) int64 { return list[i] }) }

func texts[T ~string](list []T) string {
	return textArray(len(list), func(i int) string { return string(list[i]) })
}
