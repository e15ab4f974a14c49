// Package sqlstore is the common part of the SQL drivers of package store: the form in which a
// [store.Row] and its parts are written into columns. It knows no SQL and no database.
package sqlstore
