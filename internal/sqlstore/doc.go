// Package sqlstore is the common part of the SQL drivers of package store: the form in which a
// [store.Row] and its parts are written into columns, and the operations that are not hot, which
// exist once for all drivers ([Store]). A driver supplies its transactions ([Driver]), the methods
// of one ([Tx]), and the statements that its tables or its planner want otherwise ([Queries]).
// This package imports no driver and not database/sql's connections: a driver's rows are behind
// [Rows].
//
// The statements of this package are written once, for PostgreSQL: {name} is a table, $1::text an
// argument with its type. A driver of another database turns each into its own form, once
// ([Texts]). So that this stays easy, statements use few words: = ANY ($1::bigint[]) or
// unnest($1::bigint[]) AS u (seq) for a list, and JOIN LATERAL (SELECT * FROM {name} x WHERE ...
// OFFSET 0) x for rows that are looked up one by one, against any estimate of the planner. A
// condition in it has no parentheses.
package sqlstore
