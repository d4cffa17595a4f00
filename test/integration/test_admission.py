#!/usr/bin/env python3
"""The chart's ValidatingAdmissionPolicies against a real API server: contract/01 chapter 9, as far as CEL can.

usage: test/integration/test_admission.py [-k NAME]       (from the root of the repository)

The CRDs are installed without their enums and bounds, so that the policies are what denies. Users are impersonated. Each
case appends the contract's test vectors that it has proved to $CC_VECTORS_LOG (default build/vectors.log).
"""
import copy, http.client, json, os, pathlib, shutil, ssl, subprocess, sys, tempfile, time, traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUP = 'cocoonset.cocoonstack.io'
OPERATOR = 'system:serviceaccount:cocoon-system:cocoon-operator'
AGENT = 'system:serviceaccount:cocoon-node:vk-cocoon'
KEY = 'virtual-kubelet.io/provider'
CASES = []


def case(*vectors):
    def register(function):
        CASES.append((function, vectors))
        return function
    return register


class Api:
    """Every call gives (status, body)."""

    def __init__(self, directory):
        self.context = ssl.create_default_context(cafile=str(directory / 'certs' / 'apiserver.crt'))
        self.context.check_hostname = False  # the name in it is that of the service; the certificate itself is pinned
        self.port = int((directory / 'apiserver.port').read_text())
        self.token = (directory / 'tokens.csv').read_text().split(',')[0]

    def call(self, method, path, body=None, user=None, content='application/json'):
        connection = http.client.HTTPSConnection('127.0.0.1', self.port, context=self.context, timeout=30)
        headers = {'Authorization': 'Bearer ' + self.token, 'Accept': 'application/json', 'Content-Type': content}
        if user:  # with every right, so that only admission decides
            headers.update({'Impersonate-User': user, 'Impersonate-Group': 'system:masters'})
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text.startswith(b'{') else text.decode()


class Space:
    """A namespace of seven letters, as the name budgets of the vectors ask for."""

    def __init__(self, api, number):
        self.api, self.name, self.count = api, f'space{number:02d}', 0
        assert len(self.name) == 7
        self.must('POST', '/api/v1/namespaces', {'metadata': {'name': self.name}})
        self.must('POST', f'/api/v1/namespaces/{self.name}/serviceaccounts', {'metadata': {'name': 'default'}})

    def must(self, *arguments, **options):
        status, answer = self.api.call(*arguments, **options)
        assert status in (200, 201, 202), (status, answer)
        return answer

    def path(self, kind, name=''):
        base = {'Pod': '/api/v1', 'Deployment': '/apis/apps/v1', 'StatefulSet': '/apis/apps/v1'}.get(kind, f'/apis/{GROUP}/v1')
        return f'{base}/namespaces/{self.name}/{kind.lower()}s' + (f'/{name}' if name else '')

    def create(self, kind, name, spec, user=None, **metadata):
        version = {'Pod': 'v1', 'Deployment': 'apps/v1', 'StatefulSet': 'apps/v1'}.get(kind, f'{GROUP}/v1')
        body = {'apiVersion': version, 'kind': kind, 'metadata': {'name': name, **metadata}, 'spec': spec}
        return self.api.call('POST', self.path(kind), body, user)

    def merge(self, kind, name, body, user=None):
        return self.api.call('PATCH', self.path(kind, name), body, user, 'application/merge-patch+json')

    def set(self, agent, toolboxes=None, name=None, **spec):
        self.count += 1
        spec['agent'] = agent
        if toolboxes is not None:
            spec['toolboxes'] = toolboxes
        return self.create('CocoonSet', name or f's{self.count}', spec)

    def pod(self, name, user, owner=None, gated=True, annotated=False):
        spec = {'containers': [{'name': 'agent', 'image': 'x'}]}
        if gated:
            spec['tolerations'] = [{'key': KEY, 'operator': 'Exists'}]
        metadata = {'annotations': {'vm.cocoonstack.io/name': 'vk-x'}} if annotated else {}
        if owner:
            kind, version = owner
            metadata['ownerReferences'] = [{'apiVersion': version, 'kind': kind, 'name': 'demo', 'uid': '1'}]
        return self.create('Pod', name, spec, user, **metadata)

    def workload(self, kind, name, replicas, gated=True):
        template = {'metadata': {'labels': {'a': name}}, 'spec': {'containers': [{'name': 'c', 'image': 'x'}]}}
        if gated:
            template['spec']['tolerations'] = [{'key': KEY, 'operator': 'Exists'}]
        spec = {'replicas': replicas, 'selector': {'matchLabels': {'a': name}}, 'template': template}
        if kind == 'StatefulSet':
            spec['serviceName'] = name
        return self.create(kind, name, spec)

    def scale(self, kind, name, replicas):
        return self.api.call('PATCH', self.path(kind, name) + '/scale', {'spec': {'replicas': replicas}},
                             content='application/merge-patch+json')


SET = (f'{GROUP}/v1', 'CocoonSet')


def allowed(result):
    status, answer = result
    assert status in (200, 201), (status, answer)
    return answer


def denied(result, *violations):
    """Exactly these violations of a set, or this one text of the other rules."""
    status, answer = result
    assert status in (403, 422) and answer['reason'] == 'Forbidden', (status, answer)
    text = answer['message'].split(' denied request: ', 1)[1]
    assert text == '; '.join(violations), f'\nhave {text}\nwant {"; ".join(violations)}'


def denied_set(result, *violations):
    denied(result, 'cocoon-webhook: invalid CocoonSet spec: ' + '; '.join(violations))


def M2(path, image):
    return f'{path}.image "{image}" must be repo[:tag] when mode is clone (no registry port or digest)'


def A1(space, path, pod, characters, maximum='46 to reserve the hibernate import suffix'):
    return f'{path} derives VM name "vk-{space.name}-{pod}-<hash>" ({characters} characters); maximum is {maximum}'


@case('01-10.7.1')
def an_image_by_digest_cannot_be_cloned(s):
    image = 'ubuntu@sha256:' + 'a' * 64
    denied_set(s.set({'image': image}), M2('spec.agent', image))
    allowed(s.set({'image': image, 'mode': 'run'}))


@case()
def references_that_can_be_cloned(s):
    """The whole table of contract/01 10.4."""
    for image in ('repo', 'repo:v1', 'ns/repo:v1.2-rc', 'ghcr.io/cocoonstack/cocoon/ubuntu:24.04', 'snap_shot-x:latest'):
        allowed(s.set({'image': image}))
    for image in ('registry:5000/repo:tag', 'registry:5000/repo', 'repo@sha256:deadbeef', 'https://host/noble.img', 'Repo:tag',
                  'repo:', ':tag', 'a:b:c'):
        denied_set(s.set({'image': image}), M2('spec.agent', image))


@case('01-10.7.2')
def firecracker_boots_only(s):
    denied_set(s.set({'image': 'a/b:c', 'backend': 'firecracker'}),
               'spec.agent: firecracker does not support clone mode, use mode=run instead')
    allowed(s.set({'image': 'a/b:c', 'backend': 'firecracker', 'mode': 'run'}))


@case('01-10.7.3')
def toolboxes_share_the_backend(s):
    agent = {'image': 'a/b:c', 'backend': 'firecracker', 'mode': 'run'}
    denied_set(s.set(agent, [{'name': 'x', 'image': 'i', 'backend': 'firecracker', 'mode': 'clone'}]),
               'spec.toolboxes[0]: firecracker does not support clone mode, use mode=run instead')
    denied_set(s.set(agent, [{'name': 'x', 'image': 'i'}]),
               'spec.toolboxes[0].backend "cloud-hypervisor" must match spec.agent.backend "firecracker"')


@case('01-10.7.4')
def a_static_toolbox_has_no_backend(s):
    allowed(s.set({'image': 'a/b:c', 'backend': 'firecracker', 'mode': 'run'},
                  [{'name': 'x', 'mode': 'static', 'staticIP': '10.0.0.1', 'staticVMID': 'q'}]))


@case('01-10.7.5')
def what_a_toolbox_needs(s):
    wrong = 'spec.toolboxes[0].connType must be ssh, rdp, vnc, or adb, got "telnet"'
    static = {'name': 'x', 'mode': 'static', 'staticIP': '10.0.0.1', 'staticVMID': 'q'}
    denied_set(s.set({'image': 'i'}, [{**static, 'connType': 'telnet'}]), wrong)
    denied_set(s.set({'image': 'i'}, [{'name': 'x', 'image': 'i', 'connType': 'telnet'}]), wrong)
    denied_set(s.set({'image': 'i'}, [{'name': 'x', 'mode': 'static'}]), 'spec.toolboxes[0].staticIP is required when mode=static',
               'spec.toolboxes[0].staticVMID is required when mode=static')


@case('01-10.7.6')
def a_number_too_large_is_a_name(s):
    allowed(s.set({'image': 'i'}, [{'name': '9' * 20, 'image': 'i', 'os': 'macos'}], name='a'))
    for name, is_number in (('0', True), ('0007', True), ('9223372036854775807', True), ('9223372036854775808', False)):
        toolbox = {'name': name, 'image': 'i', 'os': 'macos'}
        result = s.set({'image': 'i'}, [toolbox])
        if is_number:
            denied_set(result, f'spec.toolboxes[0].name "{name}" must not be purely numeric (conflicts with agent slot naming)')
        else:
            allowed(result)


@case('01-10.7.7')
def an_invalid_set_can_still_be_annotated(s):
    """The set was there before the policies (see main)."""
    old = {'agent': {'image': 'ubuntu@sha256:1'}}
    made = s.api.call('GET', '/apis/' + GROUP + '/v1/namespaces/default/cocoonsets/old')[1]
    assert made['spec']['agent']['image'] == old['agent']['image'], made
    path = '/apis/' + GROUP + '/v1/namespaces/default/cocoonsets/old'
    patch = {'metadata': {'annotations': {'a': 'b'}, 'finalizers': ['example.com/f']}}
    allowed(s.api.call('PATCH', path, patch, content='application/merge-patch+json'))
    allowed(s.api.call('PATCH', path, {'metadata': {'finalizers': None}}, content='application/merge-patch+json'))
    denied_set(s.api.call('PATCH', path, {'spec': {'suspend': True}}, content='application/merge-patch+json'),
               M2('spec.agent', 'ubuntu@sha256:1'))


@case('01-10.7.8')
def a_static_toolbox_that_becomes_a_vm(s):
    name = 'x' * 40
    allowed(s.set({'image': 'i'}, [{'name': name, 'mode': 'static', 'staticIP': '1.2.3.4', 'staticVMID': 'q'}], name='demo'))
    patch = {'spec': {'toolboxes': [{'name': name, 'mode': 'run', 'image': 'i'}]}}
    denied_set(s.merge('CocoonSet', 'demo', patch), A1(s, 'spec.toolboxes[0]', f'demo-{name}', 7 + 4 + 40 + 12))


@case('01-10.7.9')
def the_name_budget_of_slot_0(s):
    allowed(s.set({'image': 'i'}, name='a' * 26))
    denied_set(s.set({'image': 'i'}, name='a' * 27), A1(s, 'spec.agent', 'a' * 27 + '-0', 47))
    denied_set(s.set({'image': 'i'}, name='a.' * 13 + 'a'), A1(s, 'spec.agent', 'a-' * 13 + 'a-0', 47))


@case('01-10.7.10')
def the_name_budget_of_the_last_slot(s):
    allowed(s.set({'image': 'i', 'replicas': 9}, name='a' * 26))
    denied_set(s.set({'image': 'i', 'replicas': 10}, name='b' * 26), A1(s, 'spec.agent', 'b' * 26 + '-10', 47))


@case('01-10.7.11')
def macos_has_a_larger_budget(s):
    agent = {'image': 'i', 'os': 'macos', 'mode': 'run'}
    allowed(s.set(agent, name='a' * 43))
    denied_set(s.set(agent, name='a' * 44), A1(s, 'spec.agent', 'a' * 44 + '-0', 64, '63'))


@case('01-10.7.12')
def the_name_budget_of_a_toolbox(s):
    allowed(s.set({'image': 'i'}, [{'name': 't' * 23, 'image': 'i'}], name='demo'))
    denied_set(s.set({'image': 'i'}, [{'name': 't' * 24, 'image': 'i'}], name='deme'),
               A1(s, 'spec.toolboxes[0]', 'deme-' + 't' * 24, 47))


@case('01-10.7.13')
def a_static_toolbox_has_no_budget(s):
    allowed(s.set({'image': 'i'}, [{'name': 't' * 63, 'mode': 'static', 'staticIP': '1.2.3.4', 'staticVMID': 'q'}], name='demo'))


@case()
def all_violations_in_their_order(s):
    denied_set(s.set({'image': '', 'replicas': -1, 'mode': 'ouija', 'os': 'freebsd', 'connType': 'telnet', 'backend': 'qemu'},
                     [{'name': '', 'image': 'x', 'os': 'beos'}, {'name': 'B_', 'mode': 'copy', 'image': 'i', 'backend': 'qemu'},
                      {'name': 'c', 'image': 'i', 'backend': 'qemu'}, {'name': 'c', 'image': 'i', 'backend': 'qemu'},
                      {'name': 'c', 'backend': 'firecracker', 'os': 'windows'}],
                     snapshotPolicy='sometimes', hibernatePolicy='lease'),
               'spec.agent.image is required', 'spec.agent.replicas must be >= 0, got -1',
               'spec.agent.mode must be clone or run, got "ouija"',
               'spec.agent.os must be linux, windows, android, or macos, got "freebsd"',
               'spec.agent.connType must be ssh, rdp, vnc, or adb, got "telnet"',
               'spec.agent.backend must be cloud-hypervisor or firecracker, got "qemu"',
               'spec.toolboxes[0].name is required',
               'spec.toolboxes[1].name "B_" must match RFC 1123 label: lower-case letters, digits and -, at most 63 characters, '
               'the first and the last a letter or digit',
               'spec.toolboxes[1].mode must be run, clone, or static, got "copy"',
               'spec.toolboxes[1].backend must be cloud-hypervisor or firecracker, got "qemu"',
               'spec.toolboxes[2].backend must be cloud-hypervisor or firecracker, got "qemu"',
               'spec.toolboxes[3].name "c" duplicates an earlier toolbox',
               'spec.toolboxes[3].backend must be cloud-hypervisor or firecracker, got "qemu"',
               'spec.toolboxes[4].name "c" duplicates an earlier toolbox',
               'spec.toolboxes[4].image is required when mode is run or clone',
               'spec.toolboxes[4]: firecracker does not support Windows guests',
               'spec.toolboxes[4].backend "firecracker" must match spec.agent.backend "qemu"',
               'spec.snapshotPolicy must be always, main-only, or never, got "sometimes"',
               'spec.hibernatePolicy must be retain or release, got "lease"')
    denied_set(s.create('CocoonSet', 'empty', None), 'spec.agent.image is required')
    denied_set(s.set({'image': 'https://x/y.img', 'backend': 'firecracker', 'mode': 'run'}),
               'spec.agent: firecracker requires an OCI image, cloudimg URLs are not supported (got "https://x/y.img")')


@case()
def a_set_with_many_toolboxes(s):
    """The cost of the rules stays within the API server's budget."""
    boxes = [{'name': f't{i}', 'image': 'i'} for i in range(255)]
    allowed(s.set({'image': 'i'}, boxes))
    denied_set(s.set({'image': 'i'}, boxes + [{'name': 't5', 'image': 'i'}]),
               'spec.toolboxes[255].name "t5" duplicates an earlier toolbox')


# Decision 40: there is no webhook server, so nothing patches and there are no samples of it; what is allowed stays the same.
@case('01-10.7.14')
def other_pods_are_nobodys_business(s):
    made = allowed(s.pod('p', 'somebody', gated=False))
    assert KEY not in json.dumps(made['spec']) and 'annotations' not in made['metadata'], made


MANAGED = 'cocoon pods must be managed by a CocoonSet'


def created(user):
    return f'cocoon pods must be created by the CocoonSet controller, got user "{user}"'


@case('01-10.7.15')
def a_pod_of_somebody_else(s):
    denied(s.pod('p', OPERATOR, owner=('ReplicaSet', 'apps/v1')), MANAGED)


@case('01-10.7.16')
def who_may_create_pods_of_a_set(s):
    allowed(s.pod('p', OPERATOR, owner=('CocoonSet', f'{GROUP}/v1')))
    denied(s.pod('q', 'mallory', owner=('CocoonSet', f'{GROUP}/v1')), created('mallory'))
    allowed(s.pod('r', 'friend', owner=('CocoonSet', f'{GROUP}/v1')))  # admission.podCreators


@case('01-10.7.17')
def a_vm_name_is_enough(s):
    denied(s.pod('p', OPERATOR, gated=False, annotated=True), MANAGED)
    denied(s.pod('p', 'mallory', owner=('CocoonSet', f'{GROUP}/v1'), gated=False, annotated=True), created('mallory'))


@case('01-10.7.18')
def nobody_slips_in_later(s):
    allowed(s.pod('p', 'mallory', gated=False))
    allowed(s.pod('q', 'mallory', gated=False, owner=('CocoonSet', f'{GROUP}/v1')))
    toleration = {'spec': {'tolerations': [{'key': KEY, 'operator': 'Exists'}]}}
    annotation = {'metadata': {'annotations': {'vm.cocoonstack.io/name': 'x'}}}
    # Tolerations can only be added to what is there.
    for name, why in (('p', MANAGED), ('q', created('mallory'))):
        have = s.must('GET', s.path('Pod', name))['spec']['tolerations']
        more = copy.deepcopy(toleration)
        more['spec']['tolerations'] += have
        denied(s.merge('Pod', name, more, 'mallory'), why)
        denied(s.merge('Pod', name, annotation, 'mallory'), why)
    allowed(s.merge('Pod', 'p', {'metadata': {'annotations': {'a': 'b'}}}, 'mallory'))


@case('01-10.7.19')
def the_node_agent_annotates(s):
    allowed(s.pod('p', OPERATOR, owner=('CocoonSet', f'{GROUP}/v1'), annotated=True))
    allowed(s.merge('Pod', 'p', {'metadata': {'annotations': {'vm.cocoonstack.io/id': '7'}}}, AGENT))


def blocked(space, kind, name, before, after):
    return (f'cocoon-webhook: scale-down blocked for cocoon {kind} {space.name}/{name} ({before} -> {after}). '
            'Use a CocoonHibernation CR to suspend individual agents.')


@case('01-10.7.20')
def workloads_do_not_shrink(s):
    for kind in ('Deployment', 'StatefulSet'):
        allowed(s.workload(kind, 'gated', 5))
        allowed(s.workload(kind, 'free', 5, gated=False))
        down, drop = {'spec': {'replicas': 2}}, {'spec': {'replicas': 2, 'template': {'spec': {'tolerations': None}}}}
        denied(s.merge(kind, 'gated', down), blocked(s, kind, 'gated', 5, 2))
        denied(s.merge(kind, 'gated', drop), blocked(s, kind, 'gated', 5, 2))
        denied(s.merge(kind, 'gated', {'spec': {'replicas': None}}), blocked(s, kind, 'gated', 5, 1))
        allowed(s.merge(kind, 'free', down))
        allowed(s.merge(kind, 'free', {'spec': {'replicas': 5}}))
        allowed(s.merge(kind, 'free', {'spec': {'replicas': 5}, 'metadata': {'labels': {'a': 'b'}}}))
        allowed(s.merge(kind, 'gated', {'metadata': {'labels': {'a': 'b'}}}))
        allowed(s.merge(kind, 'gated', {'spec': {'replicas': 6}}))


@case()
def scaling_by_the_subresource(s):
    """10.7.21 but for its last case: a GET that fails does not exist here."""
    for kind in ('Deployment', 'StatefulSet'):
        allowed(s.workload(kind, 'gated', 5))
        allowed(s.workload(kind, 'free', 5, gated=False))
        patience = time.monotonic() + 10  # the server's cache of workloads follows its watch
        while True:
            try:
                denied(s.scale(kind, 'gated', 2), blocked(s, 'Scale', 'gated', 5, 2))
                break
            except (AssertionError, IndexError):
                assert time.monotonic() < patience and s.scale(kind, 'gated', 5)[0] == 200, s.scale(kind, 'gated', 2)
                time.sleep(0.1)
        allowed(s.scale(kind, 'gated', 6))
        allowed(s.scale(kind, 'free', 2))
        assert s.scale(kind, 'missing', 2)[0] == 404


@case('01-10.7.22')
def workloads_may_be_made(s):
    allowed(s.workload('Deployment', 'a', 1))


def hibernation(s, name, pod, desire='Hibernate', **metadata):
    return s.create('CocoonHibernation', name, {'podRef': {'name': pod}, 'desire': desire}, **metadata)


def until_denied(attempt, text):
    """The others come from the server's cache, which follows its watch: ask until it knows. Dry runs leave nothing."""
    patience = time.monotonic() + 10
    while True:
        result = attempt()
        if result[0] not in (200, 201) and text in result[1]['message']:
            denied(result, text)
            return
        assert time.monotonic() < patience, result
        time.sleep(0.1)


@case('01-10.7.23')
def one_hibernation_for_a_pod(s):
    """`legacy-name` was there before the policies (see main)."""
    path = f'/apis/{GROUP}/v1/namespaces/default/cocoonhibernations'
    body = {'apiVersion': f'{GROUP}/v1', 'kind': 'CocoonHibernation', 'metadata': {'name': 'pod-a'},
            'spec': {'podRef': {'name': 'pod-a'}, 'desire': 'Hibernate'}}

    def attempt():
        return s.api.call('POST', path + '?dryRun=All', body)
    until_denied(attempt, 'cocoon-webhook: pod "pod-a" already has a live CocoonHibernation "legacy-name"; '
                          'flip its spec.desire instead of creating a second CR')
    s.must('DELETE', path + '/legacy-name')  # its finalizer holds it
    until_denied(attempt, 'cocoon-webhook: pod "pod-a"\'s CocoonHibernation "legacy-name" is still terminating; '
                          'retry after its cleanup finishes')
    s.must('PATCH', path + '/legacy-name', {'metadata': {'finalizers': None}}, content='application/merge-patch+json')
    patience = time.monotonic() + 10
    while attempt()[0] != 201:
        assert time.monotonic() < patience
        time.sleep(0.1)


@case()
def a_hibernation_is_named_after_its_pod(s):
    """10.7.24 but for its last case: there is no LIST that could fail."""
    denied(hibernation(s, 'hib-for-pod-a', 'pod-a'), 'cocoon-webhook: metadata.name "hib-for-pod-a" must equal spec.podRef.name '
           '"pod-a" (one CocoonHibernation per pod, named after it)')
    denied(hibernation(s, 'pod-a', 'pod-a', 'hibernate'), 'cocoon-webhook: spec.desire must be Hibernate or Wake, got "hibernate"')


@case('01-10.7.25')
def other_pods_and_updates_pass(s):
    allowed(hibernation(s, 'pod-a', 'pod-a'))
    allowed(hibernation(s, 'pod-b', 'pod-b'))
    allowed(s.merge('CocoonHibernation', 'pod-a', {'spec': {'desire': 'Wake'}}))


def relaxed(node):
    """A schema without enums and bounds."""
    if isinstance(node, list):
        return [relaxed(child) for child in node]
    if not isinstance(node, dict):
        return node
    drop = {'enum', 'minLength', 'maxLength', 'pattern', 'minimum', 'maximum', 'x-kubernetes-validations'}
    return {key: relaxed(child) for key, child in node.items() if key not in drop or not isinstance(child, (list, str, int))}


def install(api, kubectl):
    """CRDs, what was there before, policies."""
    for file in sorted((ROOT / 'charts/cocoon/crds').glob('*.yaml')):
        text = subprocess.run([kubectl, 'create', '--dry-run=client', '-o', 'json', '-f', str(file)], check=True, env=api.environment,
                              capture_output=True, text=True).stdout
        crd = json.loads(text)
        version = crd['spec']['versions'][0]
        schema = version['schema']['openAPIV3Schema']
        schema['properties']['spec'] = relaxed(schema['properties']['spec'])
        status, answer = api.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd)
        assert status == 201, answer
    subprocess.run([kubectl, 'wait', '--for=condition=Established', '--timeout=30s', 'crd', '--all'], check=True,
                   env=api.environment, stdout=subprocess.DEVNULL)
    before = [('cocoonsets', 'CocoonSet', {'name': 'old'}, {'agent': {'image': 'ubuntu@sha256:1'}}),
              ('cocoonhibernations', 'CocoonHibernation', {'name': 'legacy-name', 'finalizers': ['example.com/hold']},
               {'podRef': {'name': 'pod-a'}, 'desire': 'Hibernate'})]
    for plural, kind, metadata, spec in before:
        body = {'apiVersion': f'{GROUP}/v1', 'kind': kind, 'metadata': metadata, 'spec': spec}
        status, answer = api.call('POST', f'/apis/{GROUP}/v1/namespaces/default/{plural}', body)
        assert status == 201, answer
    helm = subprocess.run([str(ROOT / 'hack/kube'), 'helm'], check=True, capture_output=True, text=True).stdout.strip()
    policies = subprocess.run(
        [helm, 'template', 'cocoon', str(ROOT / 'charts/cocoon'), '--namespace', 'cocoon-system', '--set', 'registry.url=none',
         '--set', 'admission.policies=on', '--set', 'admission.podCreators={friend}', '--show-only', 'templates/admission-*.yaml'],
        check=True, capture_output=True, text=True).stdout
    subprocess.run([kubectl, 'apply', '-f', '-'], input=policies, text=True, check=True, env=api.environment,
                   stdout=subprocess.DEVNULL)
    # Each policy is in force once it denies; the slowest ones are those with parameters.
    s = Space(api, 99)
    patience = time.monotonic() + 30
    probes = [lambda: s.api.call('POST', s.path('CocoonSet') + '?dryRun=All', {
                  'apiVersion': f'{GROUP}/v1', 'kind': 'CocoonSet', 'metadata': {'name': 'x'}, 'spec': {'agent': {'image': 'A'}}}),
              lambda: s.pod('x', 'mallory'), lambda: hibernation(s, 'x', 'y')]
    for probe in probes:
        while probe()[0] in (200, 201):
            for kind in ('Pod', 'CocoonHibernation'):
                s.api.call('DELETE', s.path(kind, 'x'), {'gracePeriodSeconds': 0})
            assert time.monotonic() < patience, 'a policy never came into force'
            time.sleep(0.1)
    while hibernation(s, 'z', 'z')[0] != 201:  # its parameters' cache is filled
        assert time.monotonic() < patience, hibernation(s, 'z', 'z')
        time.sleep(0.1)


def run(api, wanted):
    log = pathlib.Path(os.environ.get('CC_VECTORS_LOG') or ROOT / 'build/vectors.log')
    log.parent.mkdir(parents=True, exist_ok=True)
    passed = failed = 0
    for number, (function, vectors) in enumerate(CASES):
        if wanted not in function.__name__:
            continue
        try:
            function(Space(api, number))
        except Exception:
            failed += 1
            print(f'FAIL admission/{function.__name__}\n{traceback.format_exc()}')
            continue
        passed += 1
        with log.open('a') as lines:
            lines.writelines(f'{vector} test_admission:{function.__name__}\n' for vector in vectors)
    print(f'test_admission: {passed} passed, {failed} failed')
    return failed == 0 and passed > 0


def main():
    wanted = sys.argv[2] if sys.argv[1:2] == ['-k'] else ''
    directory = pathlib.Path(tempfile.mkdtemp(prefix='cocoon-admission-'))
    kube = str(ROOT / 'hack/kube')
    try:
        subprocess.run([kube, 'start', str(directory)], check=True, env=dict(os.environ, KUBE_PARTS='apiserver'))
        api = Api(directory)
        api.environment = dict(os.environ, KUBECONFIG=str(directory / 'kubeconfig'))
        kubectl = subprocess.run([kube, 'build'], check=True, capture_output=True, text=True).stdout.strip() + '/kubectl'
        install(api, kubectl)
        good = run(api, wanted)
    finally:
        subprocess.run([kube, 'stop', str(directory)], check=False)
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if good else 1


sys.exit(main())
