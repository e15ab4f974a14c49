// Package bench is empty: the yard measures.
package bench
