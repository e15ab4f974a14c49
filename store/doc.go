// Package store is the contract between dltbatch and a database ([Store]): the methods without
// which no batch is delivered ([Delivery]), the others by their [Abilities], and the rules that
// all stores share, as pure functions over a [Row]. docs/stores.md is for authors of stores.
//
// A stored batch has two parts: the batch itself never changes, the [Row] does. A driver loads
// a row, asks this package for the next row, and writes that by compare-and-set on the
// version; so all drivers behave the same. The drivers live in the folders below, and
// store/storetest checks every driver.
package store
