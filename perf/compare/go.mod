module ticketing/perf/compare

go 1.26.0
