// Package native is the store of package postgres over pgx's own pool of connections, without
// database/sql. Tables, statements and promises are the same: stores of both packages may share
// a schema, also within a process.
//
// It is for services that use pgx themselves: [Store.Tx] and [Store.AddOrdersTx] take their
// transactions, and the store shares their pool. Only importers of this package link pgx.
//
// BEGIN and the settings of a transaction go to the server together with its first statement, and
// so do other statements that do not need each other's results: an Add takes three trips where
// it takes five or six over database/sql. A tracer sees these statements if it is a
// pgx.BatchTracer. An Add or AddTx of 100 batches and more copies them (COPY), which costs the
// server and the client less; a tracer sees each COPY as a query.
//
// # The pool
//
// The store changes nothing about the pool. Its calls wait for a connection like the service's:
// give it 16 connections beside the service's own (pool_max_conns in the data source
// name; pgxpool's default is 4, or the number of processors). After an error a connection that
// may be in a transaction is closed. A context that ends while a statement runs closes its
// connection, as always with pgx.
//
// Through PgBouncer in transaction mode set default_query_exec_mode=exec in the data source name
// (or simple_protocol): pgx's default prepares statements that outlive a transaction. See the
// package comment of postgres.
package native
