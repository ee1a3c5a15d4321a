//! Fewer points than pixels, without losing a peak.

/// A value at a time in seconds. `None` is a gap: it breaks a line, it is not zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: f64,
    pub(crate) value: Option<f64>,
}

/// At most about `2 × bins` points that draw the same line: of every bin the smallest and the
/// largest value, and every gap; the first and the last of all.
pub(crate) fn keep_extremes(points: &[Point], bins: usize) -> Vec<Point> {
    if points.len() <= bins.max(1) * 2 {
        return points.to_vec();
    }
    let mut kept = Vec::new();
    for bin in points.chunks(points.len().div_ceil(bins.max(1))) {
        let known = || bin.iter().enumerate().filter_map(|(i, p)| Some((i, p.value?)));
        let smallest = known().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i);
        let largest = known().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i);
        let gap = bin.iter().position(|p| p.value.is_none());
        let mut places: Vec<usize> = [smallest, largest, gap].into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        kept.extend(places.into_iter().map(|i| bin[i]));
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    if kept.first() != Some(&first) {
        kept.insert(0, first);
    }
    if kept.last() != Some(&last) {
        kept.push(last);
    }
    kept
}

/// Means over at most `bins` stretches, so that areas keep their size. A stretch
/// without a known value is a gap.
pub(crate) fn averaged(points: &[Point], bins: usize) -> Vec<Point> {
    if points.len() <= bins.max(1) {
        return points.to_vec();
    }
    points
        .chunks(points.len().div_ceil(bins.max(1)))
        .map(|bin| Point {
            at: bin.iter().map(|p| p.at).sum::<f64>() / bin.len() as f64,
            value: mean(bin.iter().filter_map(|p| p.value)),
        })
        .collect()
}

/// The mean of what is known; `None` where nothing is.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, sum), v| (n + 1, sum + v));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(n: usize) -> Vec<Point> {
        (0..n).map(|i| Point { at: i as f64, value: Some((i as f64 / 50.0).sin()) }).collect()
    }

    #[test]
    fn a_peak_of_one_second_survives() {
        let mut points = series(36_000);
        points[17_777].value = Some(99.0);
        points[20_001].value = None;
        let kept = keep_extremes(&points, 700);
        assert!(kept.len() <= 700 * 2 + 3, "{}", kept.len());
        assert!(kept.contains(&points[17_777]));
        assert!(kept.iter().any(|p| p.value.is_none()), "the gap is kept");
        assert!(kept.is_sorted_by(|a, b| a.at < b.at));
    }

    #[test]
    fn averages_keep_the_area() {
        let points = series(10_000);
        let kept = averaged(&points, 500);
        assert_eq!(kept.len(), 500);
        let area = |p: &[Point]| mean(p.iter().filter_map(|p| p.value)).unwrap();
        assert!((area(&points) - area(&kept)).abs() < 1e-9);
    }

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(keep_extremes(&series(600), 700), series(600));
        assert_eq!(averaged(&[], 10), []);
    }
}
