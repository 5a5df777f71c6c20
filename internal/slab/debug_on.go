//go:build debug

package slab

const debug = true
