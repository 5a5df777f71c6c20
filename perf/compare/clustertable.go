package main

import (
	"fmt"
	"math"
	"strings"
)

// clusterText is the table of a cluster and what is to be said of it.
func clusterText(s *clusterSection) string {
	var b strings.Builder
	header(&b, "server", "shape", "pairs/s", "CPU of the leader, µs a pair", "of a follower, µs", "acquire p50, µs", "p99, µs",
		"pairs an entry", "fsync p50, leader's, µs", "followers', µs")
	for _, r := range s.Rows {
		f := r.Figures
		own := []any{"", "", "", ""}
		if f.ID == clusterID {
			own = []any{spreadText(r.Follower), brief(r.Entry), brief(r.Fsync), brief(r.Behind)}
		}
		table(&b, f.Title, r.Shape, rateText(f.Rate), spreadText(f.CPU), own[0], brief(f.P50), brief(f.P99), own[1], own[2], own[3])
	}
	fmt.Fprintf(&b, "\n%s, %s, %s; load average %.1f before and %.1f after; the leader changed %d times. ",
		s.Date, s.Version, s.FileSystem, s.Load[0], s.Load[1], s.Moved)
	if s.ByEtcd.Median > 0 {
		fmt.Fprintf(&b, "Pairs by etcd's at 64×1: %s. ", spreadText(s.ByEtcd))
	}
	fmt.Fprintf(&b, "An fdatasync of a small append with nothing beside it: %s µs.\n", brief(s.Fdatasync))
	return b.String()
}

func rateText(s spread) string {
	return fmt.Sprintf("**%s** [%s %s]", thousands(s.Median), thousands(s.Min), thousands(s.Max))
}

// clusterTargets are those of the section.
func clusterTargets(s *clusterSection) []target {
	byEtcd := math.NaN()
	if s.ByEtcd.Median > 0 {
		byEtcd = s.ByEtcd.Median
	}
	all := []target{{what: "cluster of three: pairs by single-node etcd's, 64×1", bound: 5, have: byEtcd, least: true}}
	for _, r := range s.Rows {
		if r.Figures.ID != clusterID {
			continue
		}
		switch r.Shape {
		case shape{16, 64}:
			all = append(all, target{what: "cluster of three: pairs/s, 16×64", bound: 100_000, have: r.Figures.Rate.Median, unit: "/s", least: true})
		case shape{1, 1}:
			all = append(all,
				target{what: "cluster of three: acquire p50, 1×1, by an fdatasync with nothing beside it", bound: 3, have: r.Figures.P50 / s.Fdatasync},
				target{what: "cluster of three: acquire p50, 1×1, by the p50 fsync of the leader's log in the same turns", bound: 3, have: r.Figures.P50 / r.Fsync})
		}
	}
	return all
}
