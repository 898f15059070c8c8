use super::*;

const PROJECT: &str = "423d41d3a02f4b77b4a9bbfbc3a1b3c6";

fn subjects(tenants: &[&str], rules: &[&str]) -> Subjects {
    let tenants: Vec<_> = tenants.iter().map(|text| text.parse().unwrap()).collect();
    Subjects::new(&tenants, rules.iter().map(|text| text.parse().unwrap()).collect()).unwrap()
}

fn both(text: &str, rules: &[&str]) -> (String, Report) {
    let mut report = Report::default();
    let rewritten = rewrite("r.yaml", text, &subjects(&["acme=d1", "globex=d2"], rules), &mut report).unwrap();
    (rewritten, report)
}

fn one_tenant(text: &str) -> (String, Report) {
    let mut report = Report::default();
    let rewritten = rewrite("r.yaml", text, &subjects(&["acme=d1"], &[]), &mut report).unwrap();
    (rewritten, report)
}

const BINDINGS: &str = "# what follows is by hand
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: web}   # é
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
  # alice reads
  - kind: User
    name: alice # since 2019
    apiGroup: rbac.authorization.k8s.io
  - {kind: Group, name: 'staff', apiGroup: rbac.authorization.k8s.io}
  - kind: ServiceAccount
    name: alice
    namespace: web
  - kind: Group
    name: system:authenticated
---
kind: ConfigMap
data: {alice: alice, template: {{ not yaml }}
--- # the last
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1beta1
  kind: ClusterRoleBinding
  metadata:
    name: all
  subjects:
  - kind: User
    name: \"bob\"
- apiVersion: example.com/v1
  kind: RoleBinding
  subjects:
  - {kind: User, name: carol}
";

#[test]
fn names_change_and_nothing_else_does() {
    let (text, report) = one_tenant(BINDINGS);
    let expected = BINDINGS
        .replace("name: alice #", "name: \"acme:alice\" #")
        .replace("name: 'staff'", "name: \"acme:staff\"")
        .replace("name: \"bob\"", "name: \"acme:bob\"");
    assert_eq!(text, expected);
    let told: Vec<_> = report.subjects.iter().map(|s| (s.line, s.binding.as_str(), s.name.as_str(), s.outcome)).collect();
    assert_eq!(
        told,
        [
            (9, "RoleBinding web/readers", "alice", Outcome::Translated),
            (11, "RoleBinding web/readers", "staff", Outcome::Translated),
            (16, "RoleBinding web/readers", "system:authenticated", Outcome::Kept),
            (30, "ClusterRoleBinding all", "bob", Outcome::Translated),
        ]
    );
    assert!(report.is_whole());
    let again = one_tenant(&text);
    assert_eq!(again.0, text, "twice is once");
}

#[test]
fn t02_a_name_that_may_be_anyones_stays_and_is_told() {
    let (text, report) = both(BINDINGS, &["alice=globex"]);
    assert_eq!(text, BINDINGS.replace("name: alice #", "name: \"globex:alice\" #"));
    let open: Vec<_> = report.subjects.iter().filter(|s| s.outcome == Outcome::NotTranslated).map(|s| s.name.as_str()).collect();
    assert_eq!(open, ["staff", "bob"]);
    assert!(report.to_string().contains("r.yaml:11: RoleBinding web/readers: Group staff: NOT TRANSLATED: "), "{report}");
    assert!(report.to_string().contains("--subject 'user:bob=LABEL'"), "{report}");
    assert!(!report.is_whole());
}

#[test]
fn a_projects_id_becomes_one_subject_for_each_tenant() {
    let head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n";
    for (before, after) in [
        (
            "subjects:\n- apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: PID # the web project\n- kind: ServiceAccount\n  name: x\n",
            "subjects:\n- apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: \"acme:PID\" # the web project\n- apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: \"globex:PID\"\n- kind: ServiceAccount\n  name: x\n",
        ),
        (
            "subjects:\n  -   name: PID\n      kind: Group",
            "subjects:\n  -   name: \"acme:PID\"\n      kind: Group\n  -   name: \"globex:PID\"\n      kind: Group",
        ),
        (
            "subjects: [{kind: Group, name: PID }, {kind: User, name: 'system:x'}]\n",
            "subjects: [{kind: Group, name: \"acme:PID\" }, {kind: Group, name: \"globex:PID\" }, {kind: User, name: 'system:x'}]\n",
        ),
        (
            "subjects:\n- {name: PID, kind: Group} # both\nroleRef: {}\n",
            "subjects:\n- {name: \"acme:PID\", kind: Group} # both\n- {name: \"globex:PID\", kind: Group}\nroleRef: {}\n",
        ),
    ] {
        let (before, after) = (format!("{head}{before}").replace("PID", PROJECT), format!("{head}{after}").replace("PID", PROJECT));
        let (text, report) = both(&before, &[]);
        assert_eq!(text, after);
        assert!(report.is_whole() && report.to_string().contains("expanded"), "{report}");
    }
}

#[test]
fn json_is_rewritten_too() {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "n"},
         "subjects": [{"kind": "Group", "name": PROJECT}, {"kind": "User", "name": "al\"ice"}]},
    ]});
    for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
        let (rewritten, _) = both(&text, &["al\"ice=acme"]);
        let value: Value = serde_json::from_str(&rewritten).unwrap();
        let names: Vec<_> = value["items"][0]["subjects"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(names, [format!("acme:{PROJECT}").as_str(), &format!("globex:{PROJECT}"), "acme:al\"ice"]);
    }
}

#[test]
fn what_can_not_be_changed_in_its_place_is_told_or_refused() {
    let head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: &n alice}\n";
    for subject in ["{kind: User, name: *n}", "\n  kind: User\n  name: |-\n    alice\n"] {
        let text = format!("{head}subjects:\n- {subject}\n");
        let (rewritten, report) = one_tenant(&text);
        assert_eq!(rewritten, text);
        assert!(!report.is_whole(), "{report}");
    }
    let twice = format!(
        "apiVersion: v1\nkind: List\nitems:\n- &b\n  {}  subjects: [{{kind: User, name: alice}}]\n- *b\n",
        head.replace('\n', "\n  ").trim_end_matches(' ')
    );
    assert!(twice.contains("- *b"));
    let mut report = Report::default();
    let rewritten = rewrite("r", &twice, &subjects(&["acme=d"], &[]), &mut report);
    // Either way no name is lost: it is refused, or what came of it is what was meant.
    if let Ok(text) = rewritten {
        assert!(text.contains("acme:alice") || !report.is_whole(), "{text}");
    }
    for broken in ["kind: RoleBinding\n  a: b: c", "kind: RoleBinding\nkind: RoleBinding\n"] {
        assert!(rewrite("r", broken, &subjects(&["acme=d"], &[]), &mut report).is_err(), "{broken}");
    }
}

#[test]
fn typed_lists_need_not_say_what_their_items_are() {
    let text = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBindingList\nitems:\n- metadata: {name: b}\n  subjects: [{kind: User, name: alice}]\n";
    let (rewritten, report) = one_tenant(text);
    assert!(rewritten.contains("\"acme:alice\""), "{rewritten}");
    assert_eq!(report.subjects[0].binding, "binding b");
}

#[test]
fn the_bindings_of_a_large_cluster_are_one_document() {
    let item = |n: usize| {
        let subject = |m| serde_json::json!({"apiGroup": GROUP, "kind": "User", "name": format!("user-{n}-{m}")});
        serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("b{n}"), "namespace": "n", "resourceVersion": "1"}, "subjects": [subject(1), subject(2)]})
    };
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": (0..9_000).map(item).collect::<Vec<_>>()});
    let (rewritten, report) = one_tenant(&list.to_string());
    assert_eq!((report.subjects.len(), rewritten.matches("\"acme:user-").count()), (18_000, 18_000));
}
