// Package sqlstore is the common part of the SQL drivers of package store: the columns into which
// a [store.Row] and its parts are written, and the operations that need not be fast, which exist
// once for all drivers ([Store]). A driver supplies its transactions ([Driver]), the methods of
// one transaction ([Tx]), and the statements in which its tables or its planner differ
// ([Queries]). This package imports no driver, and no connections of database/sql: it reads a
// driver's rows through [Rows].
//
// The statements of this package are written once, for PostgreSQL: {name} is a table, and $1::text
// is an argument with its type. A driver of another database changes each statement into its own
// form, once ([Texts]). So that this stays easy, statements use few constructs: = ANY
// ($1::bigint[]) or unnest($1::bigint[]) AS u (seq) for a list, and JOIN LATERAL (SELECT * FROM
// {name} x WHERE ... OFFSET 0) x for rows that the database looks up one by one, whatever its
// planner estimates. The condition of such a JOIN has no parentheses.
package sqlstore
