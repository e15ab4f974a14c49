// Package sqlrow is what the SQL drivers of package store have in common: how a
// [store.Row] and what belongs to it is written into columns. It knows no SQL and
// no database.
package sqlrow
